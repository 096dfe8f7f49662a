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
  const policy = [
    ...["resize has version 1", "  max attempts: 3", "  priorities: 0,5", "  max consumers: 10"],
    ...["  retention: 7200 s", "  dead letters: resize-dead"],
  ];
  assert.equal(made.output, `${policy.join("\n")}\n`, made.errors);
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

test("setting one part of a policy keeps the others, and prints the difference", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const set = async (...args: string[]): Promise<string> => {
    const { output, errors } = await cli.run("topics", "set", "csv.Import:v_2", ...args);
    assert.equal(errors, "");
    return output;
  };
  await set("--retention", "2h", "--dead-letters", "csv.dead");
  const more = await set("--max-attempts", "7");
  assert.equal(more, "csv.import:v_2 has version 2\n  max attempts: 5 -> 7\n");
  const { policy } = JSON.parse(
    (await cli.run("topics", "get", "csv.import:v_2", "--json")).output,
  );
  assert.deepEqual(policy, {
    priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    maxAttempts: 7,
    deadLetterTopicRef: "csv.dead",
    retentionSeconds: 7200,
  });
  assert.match(await set(), /version 2\n {2}nothing changed/);
  const less = await set("--retention", "0", "--dead-letters", "");
  const gone = [
    "  retention: 7200 s -> as the server is set",
    "  dead letters: csv.dead -> no copies",
  ];
  assert.equal(less, `csv.import:v_2 has version 3\n${gone.join("\n")}\n`);
});

test("what is wrong is said", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const bad = await cli.run("topics", "set", "re size", "--max-attempts", "3");
  assert.match(bad.errors, /invalid topicName/);
  const words = await cli.run("topics", "set", "resize", "--priorities", "x");
  assert.match(words.errors, /--priorities is a list of numbers/);
});
