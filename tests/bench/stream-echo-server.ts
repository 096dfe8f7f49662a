/**
 * The anchor of the stream benchmark: the same conversation over the same gRPC server and codecs with
 * no queue behind it. Whatever is created goes to the next Ready as it came; nothing is checked, kept
 * or looked up.
 */
import { decodeMessage, producer, worker } from "@codeq/protocol/wire";
import { systemClock as clock } from "../../packages/server/src/core/clock.ts";
import {
  createGrpcServer,
  type GrpcHandler,
  grpcLimits,
} from "../../packages/server/src/edge/grpc/grpc-server.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";

interface Waiting {
  count: number;
  readonly send: (tasks: worker.Task[]) => void;
}

let waiting: Waiting[] = [];
let tasks: worker.Task[] = [];
let created = 0;

const produce: GrpcHandler = (stream) => {
  const reply = (event: producer.ServerEvent): void => {
    stream.sendMessage(producer.writeServerEvent, event);
  };
  stream.onMessage((bytes) => {
    const event = decodeMessage(producer.readProducerEvent, bytes);
    if (event.case === "hello") reply({ case: "helloAck", value: producer.newHelloAck() });
    else if (event.case === "create") reply({ case: "createAck", value: take(event.value) });
    else if (event.case === "createBatch") {
      reply({ case: "createAckBatch", value: { acks: event.value.tasks.map(take) } });
    }
    hand();
  });
};

const work: GrpcHandler = (stream) => {
  const reply = (event: worker.ServerEvent): void => {
    stream.sendMessage(worker.writeServerEvent, event);
  };
  const sendOne = ([task]: worker.Task[]): void => reply({ case: "task", value: { task } });
  const sendBatch = (batch: worker.Task[]): void => {
    reply({ case: "taskBatch", value: { tasks: batch } });
  };
  stream.onMessage((bytes) => {
    const event = decodeMessage(worker.readWorkerEvent, bytes);
    if (event.case === "hello") reply({ case: "helloAck", value: worker.newHelloAck() });
    else if (event.case === "ready") {
      const { count } = event.value;
      waiting.push({ count, send: count > 1 ? sendBatch : sendOne });
      hand();
    } else if (event.case === "result") {
      reply({ case: "resultAck", value: acknowledge(event.value) });
    } else if (event.case === "resultBatch") {
      reply({ case: "resultAckBatch", value: { acks: event.value.results.map(acknowledge) } });
    }
  });
};

function take({ seq, command, payload }: producer.CreateTask): producer.CreateAck {
  created += 1;
  // As long as the ids and texts of the real server.
  const id = String(created).padStart(36, "0");
  const leaseUntil = "2026-01-01T00:00:00.000Z";
  tasks.push({
    ...worker.newTask(),
    id,
    command,
    payload,
    leaseUntil,
    status: "IN_PROGRESS",
    workerId: "worker-0",
    maxAttempts: 5,
    createdAtMs: created,
    updatedAtMs: created,
    leaseToken: 1,
  });
  return { seq, ok: true, taskId: id, errorMessage: "", errorCode: "", deduplicated: false };
}

function hand(): void {
  let served = 0;
  let from = 0;
  for (const { count, send } of waiting) {
    if (from >= tasks.length) break;
    send(tasks.slice(from, from + count));
    from += count;
    served += 1;
  }
  if (served > 0) waiting = waiting.slice(served);
  if (from > 0) tasks = tasks.slice(from);
}

function acknowledge({ taskId, leaseToken }: worker.Result): worker.ResultAck {
  return { taskId, ok: true, errorMessage: "", errorCode: "", leaseToken };
}

const server = createGrpcServer({
  methods: new Map([
    ["/producerpb.ProducerStream/Stream", produce],
    ["/workerpb.WorkerStream/Stream", work],
  ]),
  limits: grpcLimits,
  keepalive: { intervalMs: 30_000, timeoutMs: 20_000 },
  logger: createLogger({
    level: "warn",
    format: "json",
    write: (line) => void process.stderr.write(line),
    nowMs: () => clock.nowMs(),
  }),
  clock,
});
const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
const line = { msg: "listening", port, workerStreamPort: port, producerStreamPort: port };
console.log(JSON.stringify(line));
