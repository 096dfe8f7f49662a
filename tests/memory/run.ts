/** `npm run memory`: how much memory a server takes while many tasks come and go. */
import { parseArgs } from "node:util";
import { fillAndDrain, type LoadReport, type Memory, type Progress } from "./fill-and-drain.ts";
import { memoryGroup } from "./memory-group.ts";

const mebibyte = 1024 * 1024;

const usage = `npm run memory -- [options]
  --tasks N           how many tasks to create and to complete (5000000)
  --payload-bytes N   of each task (100)
  --durability M      fsync, interval or os (os)
  --limit-mb N        memory of the control group in which the server runs (512)
  --max-rss N         MB that the process may hold itself (450)
  --help              this text
The limit needs control groups that can be written; without them only --max-rss is checked, by
/proc. Ends with 1 when the server was ended or held more.`;

const { values } = parseArgs({
  options: {
    tasks: { type: "string", default: "5000000" },
    "payload-bytes": { type: "string", default: "100" },
    durability: { type: "string", default: "os" },
    "limit-mb": { type: "string", default: "512" },
    "max-rss": { type: "string", default: "450" },
    help: { type: "boolean" },
  },
});

if (values.help === true) console.log(usage);
else process.exitCode = await main();

async function main(): Promise<number> {
  const made = memoryGroup(Number(values["limit-mb"]) * mebibyte);
  const group = "why" in made ? undefined : made;
  console.log(
    "why" in made
      ? `without a memory limit, which needs control groups: ${made.why}`
      : `in a control group of ${values["limit-mb"]} MB`,
  );
  try {
    const report = await fillAndDrain({
      tasks: Number(values.tasks),
      payloadBytes: Number(values["payload-bytes"]),
      durability: values.durability,
      group,
      onProgress: (progress) => console.log(lineOf(progress)),
    });
    return judge(report, group?.kills() ?? 0);
  } finally {
    group?.remove();
  }
}

function judge(report: LoadReport, kills: number): number {
  const { idle, filling, draining, after, completed } = report;
  for (const [name, memory] of Object.entries({ idle, filling, draining, after })) {
    console.log(`${name.padEnd(10)} ${textOf(memory)}`);
  }
  const most = Math.max(filling.own, draining.own) / mebibyte;
  const problems: string[] = [];
  if (report.ended !== undefined) problems.push(`${report.ended}, ${kills} for lack of memory`);
  else if (completed < Number(values.tasks)) problems.push(`only ${completed} were completed`);
  if (most > Number(values["max-rss"])) problems.push(`it held ${most.toFixed(0)} MB`);
  for (const problem of problems) console.log(`PROBLEM ${problem}`);
  if (problems.length === 0) console.log(`${completed} tasks came and went`);
  return problems.length === 0 ? 0 : 1;
}

function lineOf({ phase, tasks, perSecond, memory }: Progress): string {
  return `${phase.padEnd(6)} ${String(tasks).padStart(8)}  ${perSecond.toFixed(0).padStart(6)}/s  ${textOf(memory)}`;
}

function textOf({ own, resident }: Memory): string {
  const mb = (bytes: number): string => `${(bytes / mebibyte).toFixed(0)} MB`.padStart(7);
  return `own ${mb(own)}  with mapped files ${mb(resident)}`;
}
