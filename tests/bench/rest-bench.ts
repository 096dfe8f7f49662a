/** What a server costs that has nothing to do: processor time, wake-ups and memory, with queues and delayed tasks that wait. */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { nodeArgs, nodeEnv } from "../../packages/server/src/start/launch.ts";
import { cpuOf } from "./cpu-time.ts";
import { type Figure, figure } from "./figures.ts";
import { readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { progress, Table } from "./table.ts";
import { ask, type Listening, Workspace } from "./workspace.ts";

export const restHelp = `a server without work
    --queues 10000             with one ready task each
    --delayed 0,1000000        tasks that are due tomorrow
    --seconds 20               per measurement
  wake-ups are the times at which a thread of the server began to run, per second; at the end the server is
  started again: until it listens, until a claim for any queue is answered, CPU time and memory after that`;

const batchMax = 1000;
/** Any ports, and the line that tells them. */
const free = {
  ...{ PORT: "0", WORKER_STREAM_ADDR: "127.0.0.1:0", PRODUCER_STREAM_ADDR: "127.0.0.1:0" },
  LOG_FORMAT: "json",
};
const creators = 4;
const tomorrowSeconds = 86_400;
/** Flushes and collections that follow from the filling are over by then. */
export const settleMs = 10_000;

export async function restBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    queues: wholeNumber("10000", 0),
    delayed: wholeNumbers("0,1000000", 0),
    seconds: wholeNumber("20"),
  });
  // As it is shipped: a start from the sources takes a second for them alone.
  const { serverMain } = await import("../e2e/server-bundle.ts");
  const table = new Table(["queues", "delayed"]);
  for (const delayed of values.delayed) {
    await using workspace = new Workspace();
    const env = {
      CODEQ_DURABILITY: "fsync",
      CODEQ_DATA_DIR: workspace.newDirectory(),
      CODEQ_QUOTAS: JSON.stringify({ default: { queues: 0 } }),
    };
    const server = await workspace.startServer(env);
    progress(`${values.queues} queues and ${delayed} delayed tasks are created`);
    await fill(server, values.queues, (n) => ({ command: `queue-${n}`, payload: {} }));
    const inQueue = (n: number): string => `queue-${n % Math.max(1, values.queues)}`;
    await fill(server, delayed, (n) => ({
      command: inQueue(n),
      payload: { n },
      delaySeconds: tomorrowSeconds,
    }));
    await pause(settleMs);
    const rest = await atRest(server, values.seconds);
    await workspace.stop(server.child);
    const restart = await restarted(() =>
      workspace.startListening([...nodeArgs, serverMain], { ...nodeEnv([], env), ...env, ...free }),
    );
    table.add([String(values.queues), String(delayed)], [...rest, ...restart]);
  }
}

/** Until the server listens, and until a claim for any queue is answered. */
async function restarted(start: () => Promise<Listening>): Promise<Figure[]> {
  const startedMs = performance.now();
  const server = await start();
  const listeningMs = performance.now();
  await ask(server, "/tasks/claim", {});
  const claimedMs = performance.now();
  return [
    figure("start ms", listeningMs - startedMs),
    figure("claim ms", claimedMs - listeningMs),
    figure("cpu s", (await cpuOf(server.child)).seconds, 2),
    figure("started MB", await residentMbOf(server.child.pid)),
  ];
}

/** What a server costs while nobody asks it for anything. */
export async function atRest({ child: { pid } }: Listening, seconds: number): Promise<Figure[]> {
  const before = { cpu: await cpuOf({ pid }), wakeUps: await wakeUpsOf(pid) };
  await pause(seconds * 1000);
  const cpu = (await cpuOf({ pid })).seconds - before.cpu.seconds;
  const wakeUps = (await wakeUpsOf(pid)) - before.wakeUps;
  return [
    figure("cpu %", (100 * cpu) / seconds, 2),
    figure("wake-ups/s", wakeUps / seconds, 1),
    figure("resident MB", await residentMbOf(pid)),
  ];
}

async function residentMbOf(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024;
}

/** A thread that waits gives up its processor; each time it runs again, something woke it up. */
async function wakeUpsOf(pid: number | undefined): Promise<number> {
  let sum = 0;
  for (const task of await readdir(`/proc/${pid}/task`)) {
    const status = await readFile(`/proc/${pid}/task/${task}/status`, "utf8").catch(() => "");
    sum += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  }
  return sum;
}

async function fill(
  server: Listening,
  count: number,
  taskOf: (n: number) => object,
): Promise<void> {
  let made = 0;
  const run = async (): Promise<void> => {
    while (made < count) {
      const from = made;
      made = Math.min(count, from + batchMax);
      const tasks = Array.from({ length: made - from }, (_, n) => taskOf(from + n));
      await ask(server, "/tasks/batch", { tasks });
    }
  };
  await Promise.all(Array.from({ length: creators }, run));
}
