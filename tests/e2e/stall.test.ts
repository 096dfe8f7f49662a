/** A server that does not run for a while, and what it does to workers that are not to blame. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ApiClient, type TaskJson } from "./api-client.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "./server-process.ts";

async function setup(t: TestContext): Promise<{ server: ServerProcess; api: ApiClient }> {
  const directory = temporaryDirectory();
  const server = await startServer({ dataDir: directory.path });
  const api = new ApiClient(server.port);
  t.after(async () => {
    api.close();
    await server.kill();
    directory.dispose();
  });
  return { server, api };
}

/** A claim that finds nothing on a server that runs. */
async function emptyClaim(api: ApiClient, waitSeconds: number): Promise<void> {
  const reply = await api.post("/tasks/claim", { commands: ["idle"], waitSeconds });
  assert.equal(reply.status, 204, reply.text);
}

test("S27: leases outlive a SIGSTOP that is longer than they are", async (t) => {
  const [{ server, api }, clock] = await Promise.all([setup(t), setup(t)]);
  const claimed: TaskJson[] = [];
  for (const command of ["queued", "late"]) {
    assert.equal((await api.create({ command, payload: {} })).status, 202);
    const reply = await api.post("/tasks/claim", { commands: [command], leaseSeconds: 3 });
    assert.equal(reply.status, 200, reply.text);
    claimed.push(JSON.parse(reply.text) as TaskJson);
  }
  const [queued, late] = claimed as [TaskJson, TaskJson];
  server.signal("SIGSTOP");
  const heartbeat = api.post(`/tasks/${queued.id}/heartbeat`, { extendSeconds: 30 });
  await emptyClaim(clock.api, 4);
  const noticed = server.line((line) => line.includes("was suspended for a while"));
  server.signal("SIGCONT");
  const answered = await heartbeat;
  assert.equal(answered.status, 200, answered.text);
  const afterwards = await api.post(`/tasks/${late.id}/heartbeat`, { extendSeconds: 30 });
  assert.equal(afterwards.status, 200, afterwards.text);
  const [first, second] = [await api.task(queued.id), await api.task(late.id)];
  assert.deepEqual([first?.status, second?.status], ["IN_PROGRESS", "IN_PROGRESS"]);
  assert.deepEqual([first?.attempts ?? 0, second?.attempts ?? 0], [0, 0]);
  const { stalledMs } = JSON.parse(await noticed) as { stalledMs: number };
  assert.ok(stalledMs > 3000, `it noticed ${stalledMs} ms`);
});
