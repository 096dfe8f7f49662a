/** Backups from the command line: written, verified and restored. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { codeq } from "@codeq/client";
import { CliWorld } from "../../packages/cli/test/cli-world.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";

const operator = {
  token: "dev-token",
  subject: "ops",
  raw: { tenantId: "dev-tenant", roles: ["operator"] },
};
const env = { PRODUCER_AUTH_CONFIG: JSON.stringify(operator), ALLOW_PRODUCER_AS_WORKER: "true" };

test("a backup is written, verified and restored to a server that has the tasks", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  using cli = new CliWorld();
  const dataDir = join(directory.path, "data");
  const server = await startServer({ dataDir, env });
  t.after(() => server.kill());
  const api = new ApiClient(server.port);
  const { id } = JSON.parse((await api.create({ command: "mail", payload: 1 })).text);
  api.close();
  const at = ["--base-url", server.url, "--token", "dev-token"];
  const written = await cli.run("backup", "create", "daily", ...at);
  assert.match(
    written.output,
    /^control\/\d+-\d+-\d+\.full +[\d.]+ \w+\nwritten to .*daily on the server\n$/,
    written.errors,
  );
  const more = await cli.run("backup", "create", "daily", ...at, "--json");
  assert.equal(JSON.parse(more.output).files[0].kind, "log");
  const file = join(directory.path, "codeq.backup");
  const stored = await cli.run("backup", "--to", file, ...at);
  assert.match(
    stored.output,
    /^control: everything, \d+ items, [\d.]+ \w+\nstored in /,
    stored.errors,
  );
  assert.match(stored.errors, /^files of tasks are not part of it/);
  const added = await cli.run("backup", "--to", file, ...at, "--json");
  assert.equal(JSON.parse(added.output).files[0].kind, "log", added.errors);
  const sound = await cli.run("backup", "verify", file);
  assert.match(sound.output, /^sound: 1 store, /, sound.errors);
  const client = codeq({ url: server.url, token: "dev-token" });
  const read = join(directory.path, "read.backup");
  writeFileSync(read, await buffer(await client.admin.readBackup()));
  await client.close();
  assert.match((await cli.run("backup", "verify", read)).output, /^sound: 1 store, /);
  assert.equal((await cli.run("backup", ...at)).code, 2);
  const bad = await cli.run("backup", "create", "../x", ...at);
  assert.equal(bad.code, 11, bad.errors);
  await server.stop();
  const from = join(dataDir, "backups", "daily");
  const verified = await cli.run("backup", "verify", from);
  assert.match(verified.output, /^sound: 1 store, \d+ entries, \d+ log records, up to \d{4}-/);
  const into = join(directory.path, "restored");
  const early = await cli.run("restore", from, "--data-dir", into, "--at", "2020-01-01T00:00:00Z");
  assert.equal(early.code, 4);
  assert.match(early.errors, /the backup begins at .*; choose a later moment/);
  const restored = await cli.run("restore", file, "--data-dir", into);
  assert.match(restored.output, /^restored to .*restored: 1 store, /, restored.errors);
  const used = await cli.run("restore", from, "--data-dir", dataDir);
  assert.equal(used.code, 4);
  assert.match(used.errors, /is not empty; restore into a new directory/);
  const next = await startServer({ dataDir: into, env });
  t.after(() => next.kill());
  const again = new ApiClient(next.port);
  assert.equal((await again.task(id))?.status, "PENDING");
  again.close();
  await next.stop();
});
