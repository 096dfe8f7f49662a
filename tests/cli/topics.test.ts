/** Topics from the command line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("a topic is set, listed, shown and deleted", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const empty = await cli.run("topics", "list");
  assert.equal(empty.output, "no topics; codeq topics set makes one\n", empty.errors);
  const made = await cli.run(
    ...["topics", "set", "resize", "--max-attempts", "3", "--max-consumers", "10"],
    ...["--retention", "2h", "--dead-letters", "resize-dead", "--priorities", "0,5"],
  );
  assert.equal(made.output, "resize has version 1\n", made.errors);
  const shown = JSON.parse((await cli.run("topics", "get", "resize", "--json")).output);
  assert.deepEqual(shown.policy, {
    priorityTiers: [0, 5],
    maxAttempts: 3,
    deadLetterTopicRef: "resize-dead",
    retentionSeconds: 7200,
    maxConsumers: 10,
  });
  const list = await cli.run("topics", "list");
  assert.match(list.output, /resize +1 +3 +10 +7200 s +0,5 +resize-dead/);
  const gone = await cli.run("topics", "delete", "resize");
  assert.match(gone.output, /^resize has no topic/);
  assert.notEqual((await cli.run("topics", "get", "resize")).code, 0);
});

test("what is missing or wrong is said", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  assert.match((await cli.run("topics", "set", "resize")).errors, /--max-attempts is missing/);
  const bad = await cli.run("topics", "set", "Resize", "--max-attempts", "3");
  assert.match(bad.errors, /invalid topicName/);
  const words = await cli.run(
    "topics",
    "set",
    "resize",
    "--max-attempts",
    "3",
    "--priorities",
    "x",
  );
  assert.match(words.errors, /--priorities is a list of numbers/);
});
