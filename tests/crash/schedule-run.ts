/** `npm run schedule-campaign`: kills servers that fire schedules, and counts what they fired. */
import { parseArgs } from "node:util";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { campaign } from "./schedule-campaign.ts";

const usage = `npm run schedule-campaign -- [options]
  --schedules N   schedules that fire every second (1000)
  --seconds S     how long (60)
  --kills N       how many kills, at random moments (10)
  --cluster       three nodes, whose leader is killed, instead of one server
  --seed TEXT     repeats the moments of the kills
  --help          this text
Ends with 1 when an instant has no task and no counted skip, or several tasks.`;

const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "1000" },
    seconds: { type: "string", default: "60" },
    kills: { type: "string", default: "10" },
    cluster: { type: "boolean" },
    seed: { type: "string" },
    help: { type: "boolean" },
  },
});

if (values.help === true) console.log(usage);
else process.exitCode = await main();

async function main(): Promise<number> {
  const [schedules, seconds, kills] = [values.schedules, values.seconds, values.kills].map(Number);
  const etcd = values.cluster === true ? etcdBinary() : undefined;
  if (etcd !== undefined && "missing" in etcd) throw new Error(etcd.missing);
  const verdict = await campaign({
    schedules: schedules as number,
    seconds: seconds as number,
    kills: kills as number,
    etcd: etcd?.path,
    seed: values.seed,
    tell: console.log,
  });
  const { instants, fired, skipped, problems } = verdict;
  const skips = Object.entries(skipped).filter(([, count]) => count > 0);
  const reasons = skips.map(([why, count]) => `${count} ${why}`).join(", ");
  console.log(`${instants} instants: ${fired} tasks, skips: ${reasons || "none"}`);
  for (const problem of problems.slice(0, 20)) console.error(`wrong: ${problem}`);
  if (problems.length === 0) console.log("every instant has one task or one counted skip");
  return problems.length === 0 ? 0 : 1;
}
