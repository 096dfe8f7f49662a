/**
 * A backlog costs disk, not memory: what the server keeps of its queues is bounded, however many
 * tasks wait. The memory of the whole process, with the buffers of the store, is the subject of the step
 * `memory`, which has the machine for itself.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ApiClient } from "./api-client.ts";
import { measurable, memoryOf } from "./server-memory.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "./server-process.ts";

const mebibyte = 1024 * 1024;
const batchTasks = 1000;
/** What waits for its flush comes and goes; the records of 150,000 tasks take twice as much. */
const heapGrowthMax = 40 * mebibyte;
/** Positions in memory, packed into 24 bytes each. */
const windowEntriesMax = 1_048_576;

async function setup(t: TestContext): Promise<{ server: ServerProcess; api: ApiClient }> {
  const directory = temporaryDirectory();
  const server = await startServer({
    dataDir: directory.path,
    env: { CODEQ_DURABILITY: "os" },
    nodeArgs: measurable,
  });
  const api = new ApiClient(server.port, 4);
  t.after(async () => {
    api.close();
    await server.kill();
    directory.dispose();
  });
  return { server, api };
}

interface Backlog {
  readonly tasks: number;
  readonly payloadBytes: number;
}

async function createUpTo(api: ApiClient, counter: { tasks: number }, to: Backlog): Promise<void> {
  const payload = `"${"x".repeat(to.payloadBytes)}"`;
  const items = Array.from({ length: batchTasks }, () => `{"command":"c","payload":${payload}}`);
  const body = `{"tasks":[${items.join(",")}]}`;
  const client = async (): Promise<void> => {
    while (counter.tasks < to.tasks) {
      counter.tasks += batchTasks;
      const reply = await api.post("/tasks/batch", body);
      assert.equal(reply.status, 200, reply.text.slice(0, 200));
      assert.doesNotMatch(reply.text, /"error"/);
    }
  };
  await Promise.all([client(), client()]);
}

async function readyOf(api: ApiClient): Promise<number> {
  const { text } = await api.get("/admin/queues/c");
  return (JSON.parse(text) as { ready: number }).ready;
}

test("four times the backlog takes hardly more memory", async (t) => {
  const { server, api } = await setup(t);
  const counter = { tasks: 0 };
  await createUpTo(api, counter, { tasks: 50_000, payloadBytes: 50 });
  const before = await memoryOf(server);
  await createUpTo(api, counter, { tasks: 200_000, payloadBytes: 50 });
  const after = await memoryOf(server);
  assert.equal(await readyOf(api), 200_000);
  const growth = after.heap - before.heap;
  t.diagnostic(`heap ${toMebibytes(before.heap)} to ${toMebibytes(after.heap)} MiB`);
  assert.ok(growth < heapGrowthMax, `the heap grew by ${toMebibytes(growth)} MiB`);
  const { text } = await api.page("/metrics");
  const window = Number(/^codeq_ready_window_entries (\d+)$/m.exec(text)?.[1]);
  assert.ok(window > 0 && window <= windowEntriesMax, `${window} tasks are kept in memory`);
  const claimed = await api.post("/tasks/claim/batch", { count: 256 });
  assert.equal(claimed.status, 200);
});

function toMebibytes(bytes: number): number {
  return Math.round(bytes / mebibyte);
}
