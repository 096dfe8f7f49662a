/** Lanes from the command line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("lanes are listed, limited, paused, drained, moved and purged", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const said = async (...args: string[]): Promise<string> => {
    const { code, output, errors } = await cli.run(...args);
    assert.equal(code, 0, errors);
    return output;
  };
  assert.equal(await said("lanes", "send"), "no lane has tasks, times or limits\n");
  for (const lane of ["ada", "ada", "bob", "bob"])
    await said("enqueue", "send", "{}", "--lane", lane);
  const head = "LANE +READY +RUNNING +LIMIT +RATE +UNITS +OLDEST +SHARE +WEIGHT +WAITS";
  assert.match(
    await said("lanes", "send"),
    new RegExp(`^${head} *\\nada +2 +0 +- .* 0% +1 +- *\\nbob +2 +0 `),
  );
  const one = await said("lanes", "send", "--lane", "bob", "--limit", "1");
  assert.match(one, new RegExp(`^${head} *\\nbob .*\\n$`));
  const limited = await said("lanes", "set", "send", "ada", "--concurrency", "1", "--weight", "3");
  assert.match(limited, /\nada +2 +0 +1 .* 3 +- *\n$/);
  await said("work", "send", "--max", "1", "--", "true");
  // A lane without tasks is not listed.
  await said("enqueue", "send", "{}", "--lane", "bob");
  const shares = JSON.parse(await said("lanes", "send", "--json")).lanes;
  assert.deepEqual(shares.map(({ share }: { share: number }) => share).toSorted(), [0, 1]);
  await said("enqueue", "send", "{}", "--lane", "carol");
  const weighted = await said(
    "topics",
    "set",
    "send",
    "--lane-weight",
    "5",
    "--lane-rate",
    "100/1m",
  );
  assert.match(weighted, /\n {2}lane weight: 5\n/);
  assert.match(await said("lanes", "send", "--lane", "carol"), /\ncarol .* 5 +- *\n$/);
  assert.match(await said("lanes", "send", "--lane", "ada"), /\nada .* 3 +\S+ *\n$/);
  const drained = await said("lanes", "drain", "send", "ada", "--reason", "abuse");
  assert.match(drained, /\nada +.* paused by \S+ *\n$/);
  assert.equal(
    await said("lanes", "move", "send", "ada", "--to", "later", "--dry-run"),
    await said("tasks", "send", "--lane", "ada", "--place", "ready").then((tasks) => {
      const count = tasks.trim().split("\n").length - 1;
      return `${count} ${count === 1 ? "task" : "tasks"} would be changed\n`;
    }),
  );
  assert.match(await said("lanes", "move", "send", "ada", "--to", "later"), /^job \S+ has begun; /);
  const noTarget = await cli.run("lanes", "move", "send", "ada");
  assert.match(noTarget.errors, /lanes move needs --to <queue>/);
  assert.match(await said("lanes", "purge", "send", "bob"), /^job \S+ has begun; /);
  assert.match(await said("lanes", "resume", "send", "ada"), /\nada +.* - *\n$/);
  assert.equal(await said("lanes", "delete", "send", "ada"), "ada has the limits of the topic\n");
});
