/** The bridge from BullMQ hands every job over once, although it is killed in the middle of it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Queue, QueueEvents } from "bullmq";
import { ApiClient } from "../e2e/api-client.ts";
import { Child, root, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { blocksOf } from "./marks.ts";
import { startRedisFor } from "./redis.ts";

const page = "docs/guide/migration-from-bullmq.md";
const jobs = 300;

test("a bridge that is killed again and again makes one task of each job", async (t) => {
  await using redis = await startRedisFor(t);
  if (redis === undefined) return;
  const { url } = redis;
  const directory = temporaryDirectory();
  const server = await startServer({ dataDir: directory.path });
  mkdirSync(join(root, "data"), { recursive: true });
  const files = mkdtempSync(join(root, "data", "bridge-"));
  const connection = { url };
  const queue = new Queue("images", { connection });
  const events = new QueueEvents("images", { connection });
  const api = new ApiClient(server.port);
  const bridges: Child[] = [];
  await using _end = {
    [Symbol.asyncDispose]: async () => {
      api.close();
      for (const bridge of bridges) await bridge.kill();
      await Promise.all([queue.close(), events.close(), server.kill()]);
      rmSync(files, { recursive: true, force: true });
      directory.dispose();
    },
  };
  for (const { file, text } of blocksOf("ts", page)) {
    // A job whose holder was killed is handed out again when its lock is over, not in half a minute.
    const quick = "concurrency: 50, lockDuration: 500, stalledInterval: 250, maxStalledCount: 9";
    if (file !== undefined)
      writeFileSync(join(files, file), text.replace("concurrency: 50", quick));
  }
  const startBridge = (): Child => {
    const env = { ...process.env, REDIS_URL: url, CODEQ_URL: server.url };
    const args = ["--conditions=source", join(files, "bridge.ts")];
    const stdio = ["ignore", "pipe", "pipe"] as const;
    const bridge = new Child(spawn(process.execPath, args, { env, stdio: [...stdio] }));
    bridges.push(bridge);
    return bridge;
  };
  await queue.addBulk(
    Array.from({ length: jobs }, (_, n) => ({
      name: "resize",
      data: { image: `${n}.png`, width: 1 },
    })),
  );
  await events.waitUntilReady();
  let moved = 0;
  const waiting = new Set<() => void>();
  events.on("completed", () => {
    moved += 1;
    for (const look of waiting) look();
  });
  const untilMoved = (count: number): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => void (moved >= count && resolve());
      waiting.add(look);
      look();
    });
  for (const share of [0.2, 0.4, 0.6]) {
    const bridge = startBridge();
    await untilMoved(Math.floor(jobs * share));
    await bridge.kill();
  }
  const bridge = startBridge();
  await untilMoved(jobs);
  bridge.signal("SIGTERM");
  assert.equal((await bridge.exited).code, 0, bridge.stderr);
  const { text } = await api.get("/admin/queues/resize");
  assert.deepEqual((JSON.parse(text) as { ready: number }).ready, jobs);
});
