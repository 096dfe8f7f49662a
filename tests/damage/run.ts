/** `npm run damage`: every damage of every file of a data directory, and what a server makes of it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { damagesOf } from "./damages.ts";
import { large, prepare, small } from "./prepare.ts";
import { judge, type Verdict } from "./verdict.ts";

const usage = `npm run damage -- [options]
  --size small|large   large: the beginning of the log is not needed any more and gone (large)
  --only TEXT          cases with this in their name
  --help               this text
Ends with 1 when a server served what was not written, or did not serve what was.`;

const { values } = parseArgs({
  options: {
    size: { type: "string", default: "large" },
    only: { type: "string", default: "" },
    help: { type: "boolean" },
  },
});

if (values.help === true) console.log(usage);
else process.exitCode = await main();

async function main(): Promise<number> {
  const root = mkdtempSync(join(tmpdir(), "codeq-damage-"));
  try {
    const size = values.size === "small" ? small : large;
    const subject = await prepare(root, "subject", size);
    const other = await prepare(root, "other", size);
    const verdicts: Verdict[] = [];
    for (const damage of damagesOf(subject, other)) {
      if (!damage.name.includes(values.only)) continue;
      const verdict = await judge(subject, damage, join(root, "work"));
      verdicts.push(verdict);
      console.log(`${verdict.outcome.padEnd(11)} ${verdict.name}  ${verdict.detail.slice(0, 300)}`);
    }
    const count = (outcome: Verdict["outcome"]): number =>
      verdicts.filter((each) => each.outcome === outcome).length;
    const outcomes = ["served", "repaired", "refused", "wrong", "passed over"] as const;
    console.log(outcomes.map((outcome) => `${outcome} ${count(outcome)}`).join(", "));
    return count("wrong") === 0 ? 0 : 1;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
