/**
 * Producers and workers that press equally hard on a server with a backlog: each side has the same number
 * of calls under way. A producer sends the next task when one is acknowledged, a worker a result and the
 * next Ready when it gets a task: one commit for each side. Neither may starve the other.
 */
import { producer } from "@codeq/protocol/wire";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { StreamConnection } from "./stream-client.ts";
import { Workspace } from "./workspace.ts";

export const fairnessHelp = `creates and results per second with equally many calls of both under way, behind a backlog
    --mode fsync               durability mode
    --backlog 20000            tasks that wait when it begins
    --calls 32,128             of producers, and as many of workers
    --seconds 4`;

const token = "dev-token";
const command = "bench";
const columnWidth = 12;
const batchMax = 500;

export async function fairnessBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "os"], "fsync"),
    backlog: wholeNumber("20000"),
    calls: wholeNumbers("32,128", 1),
    seconds: wholeNumber("4"),
  });
  printRow(["mode", "calls", "created/s", "finished/s", "ratio"]);
  for (const mode of values.mode) {
    for (const calls of values.calls) {
      const { created, finished } = await measure({ ...values, mode, calls });
      const perSecond = [created, finished].map((count) => (count / values.seconds).toFixed(0));
      const ratio = Math.min(created, finished) / Math.max(created, finished, 1);
      printRow([mode, String(calls), ...perSecond, ratio.toFixed(2)]);
    }
  }
}

interface Plan {
  readonly mode: string;
  readonly backlog: number;
  readonly calls: number;
  readonly seconds: number;
}

async function measure(plan: Plan): Promise<{ created: number; finished: number }> {
  await using workspace = new Workspace();
  const server = await workspace.startServer({ CODEQ_DURABILITY: plan.mode });
  const producers = await StreamConnection.open(server.producerStreamPort);
  const stream = await producers.producer(token);
  const counts = { created: 0, finished: 0 };
  const create = (): void => {
    const value = { ...producer.newCreateTask(), seq: 1, command, payload: '{"n":1}' };
    stream.send({ case: "create", value });
  };
  await fill(stream, plan.backlog);
  stream.onReply = () => {
    counts.created += 1;
    create();
  };
  const workers = await StreamConnection.open(server.workerStreamPort);
  const worker = await workers.worker(token, "worker");
  const ready = { commands: [command], leaseSeconds: 0, count: 1 };
  worker.onReply = (reply) => {
    if (reply.case === "resultAck") {
      counts.finished += 1;
    } else if (reply.case === "task" && reply.value.task !== undefined) {
      const { id, leaseToken } = reply.value.task;
      const result = { taskId: id, status: "COMPLETED", resultJson: Buffer.from("{}"), error: "" };
      worker.send({
        case: "result",
        value: { ...result, stack: "", leaseToken, artifacts: [], used: undefined },
      });
      worker.send({ case: "ready", value: ready });
    }
  };
  for (let call = 0; call < plan.calls; call++) {
    create();
    worker.send({ case: "ready", value: ready });
  }
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const before = { ...counts };
  await new Promise((resolve) => setTimeout(resolve, plan.seconds * 1000));
  // The server is about to end them.
  stream.onEnd = () => {};
  worker.onEnd = () => {};
  return {
    created: counts.created - before.created,
    finished: counts.finished - before.finished,
  };
}

async function fill(
  stream: Awaited<ReturnType<StreamConnection["producer"]>>,
  tasks: number,
): Promise<void> {
  for (let left = tasks; left > 0; left -= batchMax) {
    const batch = Array.from({ length: Math.min(left, batchMax) }, (_, seq) => ({
      ...producer.newCreateTask(),
      seq,
      command,
      payload: '{"n":1}',
    }));
    await new Promise<void>((resolve) => {
      stream.onReply = () => resolve();
      stream.send({ case: "createBatch", value: { tasks: batch } });
    });
  }
}

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(columnWidth)).join(" "));
}
