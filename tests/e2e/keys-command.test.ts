/** API keys without a server: the command works on the files alone, and never beside a server. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ApiClient } from "./api-client.ts";
import { type Exit, spawnServer, startServer, temporaryDirectory } from "./server-process.ts";

function directoryOf(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  return directory.path;
}

function keys(dataDir: string, ...args: readonly string[]): Promise<Exit> {
  return spawnServer({ dataDir, args: ["keys", ...args] }).exited;
}

interface Made {
  readonly id: string;
  readonly token: string;
}

async function made(dataDir: string, ...args: readonly string[]): Promise<Made> {
  const exit = await keys(dataDir, "create", ...args);
  assert.equal(exit.code, 0, exit.stderr);
  return JSON.parse(exit.stdout) as Made;
}

test("a key made without a server opens the server that starts next, until it is revoked", async (t) => {
  const dataDir = directoryOf(t);
  const args = ["--tenant=acme", "--name", "first = boss", "--role", "admin"];
  const { id, token } = await made(dataDir, ...args, "--scopes=codeq:create,codeq:claim");
  const server = await startServer({ dataDir });
  t.after(() => server.kill());
  const ask = (path: string): Promise<number> => statusOf(server.port, token, path);
  assert.equal(await ask("/admin/keys"), 200);
  const exit = await keys(dataDir, "revoke", id);
  assert.equal(exit.code, 3);
  assert.match(
    exit.stderr,
    /server is using this data directory.*over HTTP \(.*\/v1\/codeq\/admin\/keys\), or stop/,
  );
  assert.equal(await ask("/admin/keys"), 200);
  await server.stop();

  const listed = await keys(dataDir, "list", "--tenant", "acme");
  const [line = ""] = listed.stdout.split("\n");
  const shown = JSON.parse(line) as Record<string, unknown>;
  assert.deepEqual(shown["name"], "first = boss");
  assert.deepEqual(shown["scopes"], ["codeq:create", "codeq:claim"]);
  assert.equal(typeof shown["lastUsedAt"], "string");
  assert.equal(listed.stdout.includes(token.slice(id.length)), false);

  assert.equal((await keys(dataDir, "revoke", id)).code, 0);
  assert.equal((await keys(dataDir, "list")).stdout, "");
  const again = await startServer({ dataDir });
  t.after(() => again.kill());
  assert.equal(await statusOf(again.port, token, "/admin/keys"), 401);
  await again.stop();
});

async function statusOf(port: number, token: string, path: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  return (await fetch(`http://127.0.0.1:${port}/v1/codeq${path}`, { headers })).status;
}

test("a key is made offline on the data of a server that was killed", async (t) => {
  const dataDir = directoryOf(t);
  const server = await startServer({ dataDir });
  const api = new ApiClient(server.port);
  const created = await api.post("/tasks", { command: "render", payload: {} });
  assert.equal(created.status, 202);
  api.close();
  await server.kill();
  const { token } = await made(dataDir, "--tenant=dev-tenant", "--name=x", "--scopes=codeq:claim");
  const again = await startServer({ dataDir });
  t.after(() => again.kill());
  const path = `/tasks/${(JSON.parse(created.text) as { id: string }).id}`;
  assert.equal(await statusOf(again.port, token, path), 200, "the task is there as well");
  await again.stop();
});
