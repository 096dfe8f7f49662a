/**
 * A disk that fails. What it has kept is then unknown, so the server acknowledges nothing more, ends
 * with exit code 74, and the next start finds out.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ApiClient, type Reply, type TaskJson } from "./api-client.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "./server-process.ts";

const preload = import.meta.resolve("./failing-disk.ts");

interface World {
  readonly server: ServerProcess;
  readonly api: ApiClient;
  restart(): Promise<ApiClient>;
}

async function setup(t: TestContext, env: Record<string, string>): Promise<World> {
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const directory = temporaryDirectory();
  stack.defer(() => directory.dispose());
  const dataDir = directory.path;
  const start = async (nodeArgs: readonly string[]): Promise<[ServerProcess, ApiClient]> => {
    const server = await startServer({ dataDir, env, nodeArgs });
    const api = new ApiClient(server.port);
    stack.defer(async () => {
      api.close();
      await server.kill();
    });
    return [server, api];
  };
  const [server, api] = await start([`--import=${preload}`]);
  return { server, api, restart: async () => (await start([]))[1] };
}

async function breakDisk(server: ServerProcess): Promise<void> {
  const broken = server.line((line) => line === "the disk is broken");
  server.signal("SIGUSR2");
  await broken;
}

async function create(api: ApiClient, number: number): Promise<string> {
  const reply = await api.create({ command: "c", payload: { number } });
  assert.equal(reply.status, 202, reply.text);
  return (JSON.parse(reply.text) as TaskJson).id;
}

/** What one caller learns: an answer, or that the connection is gone. */
function outcome(request: Promise<Reply>): Promise<Reply | undefined> {
  return request.catch(() => undefined);
}

for (const fault of ["fdatasync", "write"]) {
  test(`a failed ${fault} of the log is never acknowledged and ends the server`, async (t) => {
    const { server, api, restart } = await setup(t, { CODEQ_TEST_FAULT: fault });
    const ids = await Promise.all(Array.from({ length: 50 }, (_each, at) => create(api, at)));
    const claimed = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
    await breakDisk(server);
    const outcomes = await Promise.all([
      outcome(api.create({ command: "c", payload: "lost" })),
      outcome(api.create({ command: "c", payload: "lost" })),
      outcome(api.post("/tasks/claim", {})),
      outcome(api.post(`/tasks/${claimed.id}/result`, { status: "COMPLETED", result: { a: 1 } })),
    ]);
    for (const reply of outcomes) {
      if (reply === undefined) continue;
      assert.equal(reply.status, 503, reply.text);
      assert.match((JSON.parse(reply.text) as { error: string }).error, /storage failed/);
    }
    assert.ok(
      outcomes.some((reply) => reply !== undefined),
      "those in flight hear of it before the end",
    );
    const exit = await server.exited;
    assert.equal(exit.code, 74, exit.stderr);
    assert.match(exit.stderr, /storage failed: .*EIO/);
    assert.match(exit.stdout, /storage refuses writes/);
    const next = await restart();
    for (const id of ids) assert.notEqual(await next.task(id), undefined);
    assert.equal((await next.page("/readyz")).status, 200);
    // The result was not acknowledged: it is there or it is not, but the claim before it is.
    const task = await next.task(claimed.id);
    if (task?.status !== "COMPLETED") assert.equal(task?.leaseToken, claimed.leaseToken);
  });
}

test("a result whose file could not be synced is not acknowledged", async (t) => {
  const { server, api } = await setup(t, { CODEQ_TEST_FAULT: "fsync" });
  await create(api, 1);
  const { id } = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
  const artifacts = [{ name: "a.txt", contentBase64: "aGk=" }];
  const submit = { status: "COMPLETED", result: { a: 1 }, artifacts };
  await breakDisk(server);
  assert.equal((await api.post(`/tasks/${id}/result`, submit)).status, 500);
  assert.equal((await api.task(id))?.status, "IN_PROGRESS");
});

test("a sync that fails in the background ends the server without anybody asking", async (t) => {
  const env = { CODEQ_TEST_FAULT: "fdatasync", CODEQ_DURABILITY: "interval" };
  const { server, api, restart } = await setup(t, env);
  await breakDisk(server);
  // The sync may end the server before it answers.
  const created = await outcome(api.create({ command: "c", payload: "p" }));
  const exit = await server.exited;
  assert.equal(exit.code, 74, exit.stderr);
  const next = await restart();
  // Nothing but the process ended, so what it wrote is there.
  if (created !== undefined) {
    const { id } = JSON.parse(created.text) as TaskJson;
    assert.notEqual(await next.task(id), undefined);
  }
});
