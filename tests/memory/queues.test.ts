/**
 * The most queues that a tenant may have by default take a bounded amount of memory, also after a restart, when claims for any
 * queue read the head of each of them. The server stays responsive meanwhile.
 */
import assert from "node:assert/strict";
import { platform } from "node:os";
import { type TestContext, test } from "node:test";
import { HttpConnection } from "../bench/http-connection.ts";
import { measurable, memoryOf } from "../e2e/server-memory.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";

const queues = 10_000;
const batch = 1000;
/** Of a queue with a task: its state, its history, and the record of the task that is not flushed yet. */
const heapBytesMax = 6 * 1024;
const bytesMax = 32 * 1024;
const base = "/v1/codeq/tasks";

// Only Linux tells how much memory is a process's own.
for (const shards of [1, 3]) {
  test(
    `${queues} queues in ${shards} shards have their memory`,
    {
      skip: platform() !== "linux",
    },
    (t) => measure(t, shards),
  );
}

async function measure(t: TestContext, shards: number): Promise<void> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const start = async () => {
    const env = { CODEQ_DURABILITY: "os", CODEQ_SHARDS: String(shards) };
    const server = await startServer({ dataDir: directory.path, env, nodeArgs: measurable });
    t.after(() => server.kill());
    const connection = await HttpConnection.open(server.port);
    t.after(() => connection.close());
    return { server, connection };
  };
  const first = await start();
  const atRest = await memoryOf(first.server);
  for (let made = 0; made < queues; made += batch) {
    const tasks = Array.from({ length: batch }, (_, at) => `{"command":"queue-${made + at}"}`);
    const { status } = await first.connection.post(`${base}/batch`, `{"tasks":[${tasks}]}`);
    assert.equal(status, 200);
  }
  const check = async (label: string, { server, connection }: typeof first): Promise<void> => {
    for (let claims = 0; claims < 20; claims += 1) {
      const { status } = await connection.post(`${base}/claim`, '{"leaseSeconds":600}');
      assert.equal(status, 200);
    }
    const { heap, resident } = await memoryOf(server);
    const [ofHeap, all] = [(heap - atRest.heap) / queues, (resident - atRest.resident) / queues];
    const text = `${label}: ${Math.round(ofHeap)} bytes of the heap for each queue, ${Math.round(all)} in all`;
    t.diagnostic(text);
    // The heap of the main thread, which with several shards has only the routes to them.
    assert.ok(ofHeap < heapBytesMax, text);
    assert.ok(all < bytesMax, text);
  };
  await check("with their tasks", first);
  first.server.signal("SIGTERM");
  await first.server.exited;
  await check("after a restart", await start());
}
