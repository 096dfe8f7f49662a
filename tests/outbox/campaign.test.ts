import assert from "node:assert/strict";
import { test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { campaign, judge, kills } from "./campaign.ts";
import { noPostgres } from "./postgres-server.ts";
import { type Bug, bugs } from "./relay-child.ts";

const options = { skip: noPostgres };

/** One kill of each victim, each at another step; the long form has all. */
const few = kills.filter(({ step, victim }) =>
  ["relay acknowledged", "server sending", "Postgres deleted"].includes(`${victim} ${step}`),
);

test(
  "every commit has one task although relay, server and Postgres are killed",
  options,
  async () => {
    const chosen = campaignLength({ short: few, long: [...kills, ...kills] });
    const { problems, committed, late, tasks } = await campaign({ kills: chosen });
    assert.deepEqual(problems, []);
    assert.equal(tasks, committed);
    assert.ok(late > 0);
  },
);

/** The kill that shows a bug, and what the campaign says about it. */
const shown = {
  "other key": { step: "acknowledged", victim: "relay", problem: /several tasks/ },
  "deletes first": { step: "selected", victim: "relay", problem: /committed without a task/ },
  cursor: { step: "committed", victim: "server", problem: /rows are left/ },
} as const;

for (const bug of campaignLength<readonly Bug[]>({ short: ["other key"], long: bugs })) {
  test(`the campaign notices a relay with the bug: ${bug}`, options, async () => {
    const { step, victim, problem } = shown[bug];
    const { problems } = await campaign({ kills: [{ step, victim }], bug });
    assert.match(problems.join("; "), problem);
  });
}

test("the verdict has every kind of mistake", () => {
  const problems = judge({
    orders: new Set([1, 2, 5]),
    committed: new Set([1, 2, 3]),
    rolledBack: new Set([5]),
    tasks: [1, 1, 4, 5],
  });
  assert.deepEqual(problems, [
    "committed without a task: 2 (1)",
    "a task without a commit: 4 (1)",
    "several tasks for one commit: 1 (1)",
    "acknowledged commits that are gone: 3 (1)",
    "rolled back, but there: 5 (1)",
  ]);
});
