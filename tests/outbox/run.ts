/** `npm run outbox-campaign`: kills relay, server and Postgres at every step, round after round. */
import { parseArgs } from "node:util";
import { campaign, kills } from "./campaign.ts";
import { type Bug, bugs } from "./relay-child.ts";

const usage = `npm run outbox-campaign -- [options]
  --rounds N     how many kills; each victim at each step comes in turn (${2 * kills.length})
  --bug NAME     plant a bug in the relays: ${bugs.join(", ")}
  --help         this text
Ends with 1 when a commit has no task or several, or a task has no commit.`;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: `${2 * kills.length}` },
    bug: { type: "string" },
    help: { type: "boolean" },
  },
});

if (values.help === true) console.log(usage);
else process.exitCode = await main();

async function main(): Promise<number> {
  const rounds = Number(values.rounds);
  const chosen = Array.from(
    { length: rounds },
    (_, at) => kills[at % kills.length] as (typeof kills)[0],
  );
  const bug = bugs.find((each): each is Bug => each === values.bug);
  const verdict = await campaign({ kills: chosen, bug, tell: console.log });
  const { committed, rolledBack, late, tasks, problems } = verdict;
  console.log(`${committed} commits (${late} late), ${rolledBack} rollbacks, ${tasks} tasks`);
  for (const problem of problems) console.error(`wrong: ${problem}`);
  if (problems.length === 0) console.log("every commit has one task, and no other task is there");
  return problems.length === 0 ? 0 : 1;
}
