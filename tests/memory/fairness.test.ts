/**
 * Callers without a valid token do not delay others. The server and the attacker are processes of their own; the
 * healthy client measures, so this runs while no other step does. The limit is for the median: without a share for each
 * connection it is 150 ms and more, and no pause of the machine makes it so.
 */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import type { AttackerMessage, AttackerTask } from "../connections/hostile/attacker.ts";
import { attackCalled } from "../connections/hostile/attacks.ts";
import {
  HealthyClient,
  type Latencies,
  type Probe,
} from "../connections/hostile/healthy-client.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";

const token = "dev-token";
const rounds = 60;
/** What half of the other callers may wait for at most. */
const p50MsMax = 75;

function worst(measured: Readonly<Record<Probe, Latencies>>, of: "p50Ms" | "p99Ms"): number {
  return Math.max(...Object.values(measured).map((each) => each[of]));
}

test("requests and calls without a valid token do not delay other callers", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const env = { CODEQ_DURABILITY: "os", WORKER_STREAM_ADDR: ":0" };
  const server = await startServer({ dataDir: directory.path, env });
  t.after(() => server.kill());
  const listening = await server.anyLine((line) => line.includes('"listening"'));
  const { workerStreamPort: grpc } = JSON.parse(listening) as { workerStreamPort: number };
  const target = { http: server.port, grpc, token };
  const client = await HealthyClient.open(target);
  t.after(() => client.close());
  await client.work({ rounds });
  const calm = await client.work({ rounds });
  for (const name of [
    "wrong-tokens",
    "wrong-tokens-in-turn",
    "grpc-wrong-hellos",
    "grpc-unknown-methods",
    "grpc-reflection",
  ]) {
    const task: AttackerTask = { attack: name, port: target[attackCalled(name).port], token };
    const attacker = fork(
      join(import.meta.dirname, "../connections/hostile/attacker.ts"),
      [JSON.stringify(task)],
      {
        execArgv: ["--conditions=source"],
      },
    );
    const said = (kind: AttackerMessage["kind"]): Promise<void> =>
      new Promise((resolve) => {
        attacker.on("message", (message: AttackerMessage) => {
          if (message.kind === kind) resolve();
        });
      });
    await said("under way");
    const attacked = await client.work({ rounds });
    const over = said("over");
    attacker.send("stop");
    await over;
    const [p50Ms, p99Ms] = [worst(attacked, "p50Ms"), worst(attacked, "p99Ms")];
    const calmMs = worst(calm, "p99Ms").toFixed(1);
    t.diagnostic(`${name}: p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)}, without ${calmMs} ms`);
    assert.ok(p50Ms <= p50MsMax, `${name}: ${p50Ms} ms`);
  }
});
