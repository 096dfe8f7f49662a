/** Batches from the command line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("a batch is created, filled, sealed, watched, replayed and cancelled", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const said = async (...args: string[]): Promise<string> => {
    const { code, output, errors } = await cli.run(...args);
    assert.equal(code, 0, errors);
    return output;
  };
  const create = ["batches", "create", "import", "publish", '{"file":7}', "--on", "end"];
  const created = await said(...create, "--open-for", "2h", "--tag", "nightly");
  assert.match(created, /^import is open; 0 of 0 members have not ended; callback \S{36}\n$/);
  assert.equal(await said(...create, "--open-for", "2h", "--tag", "nightly"), created);
  assert.match(await said("batches", "add", "import", "load", '{"part":1}'), /^enqueued \S{36}/);
  assert.match(
    await said("enqueue", "load", '{"part":2}', "--batch", "import", "--max-attempts", "1"),
    /^enqueued/,
  );
  const piped = world({ input: "3\n4\n" });
  const lines = await piped.run("batches", "add", "import", "load", "-", "--lines");
  assert.match(lines.output, /^enqueued 2 in /, lines.errors);
  assert.match(await said("batches", "seal", "import"), /^import is sealed; 4 of 4 members/);
  const listed = await said("batches", "list");
  assert.match(listed, /^BATCH +PHASE +MEMBERS .*\nimport +sealed +4 +4 +0 +0 +0 +publish /);
  assert.equal(await said("batches", "get", "import"), listed);
  assert.match(await said("tasks", "--batch", "import", "--place", "ready"), /(.*load.*\n){4}/);
  const callbackId = JSON.parse(await said("batches", "get", "import", "--json")).callbackId;
  assert.match(await said("why", callbackId), /it waits for 4 of 4 members of batch import/);
  assert.match(await said("tasks", "--place", "held"), /publish +held/);
  const dry = await said("batches", "replay", "import", "--dry-run");
  assert.equal(dry, "0 tasks would be changed\n");
  assert.match(await said("batches", "replay", "import"), /^job \S+ has begun; /);
  const members = await said("batches", "members", "import", "--limit", "3");
  assert.match(members, /^TASK +COMMAND +STATUS +ERROR\n(\S{36} +load +PENDING +-\n){3}$/);
  assert.equal(await said("batches", "members", "import", "--failed"), "no members\n");
  assert.match(await said("batches", "cancel", "import"), /^import is cancelled; callback /);
  const before = (await said("enqueue", "load", "{}")).split(" ")[1]?.trim() ?? "";
  const waiting = (await said("enqueue", "publish", "{}", "--after", before)).split(" ")[1]?.trim();
  assert.match(await said("why", waiting ?? ""), /it waits for 1 of 1 task of its 'after'/);
  const late = await cli.run("batches", "add", "import", "load");
  assert.match(late.errors, /takes no more members/);
});
