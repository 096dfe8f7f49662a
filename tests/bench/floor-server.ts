/**
 * The least that a server of these streams can cost: Node's own HTTP/2, the messages decoded and encoded, and, with
 * `fsync`, one group of appended bytes that is synced before its answers leave. Whatever is created goes to the next
 * Ready as it came; nothing is checked, kept or looked up.
 */
import { fdatasync, openSync, write } from "node:fs";
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import {
  decodeMessage,
  FrameReader,
  producer,
  SendQueue,
  SendTurn,
  type WireWrite,
  worker,
} from "@codeq/protocol/wire";

const [mode, logPath] = process.argv.slice(2);
const messageBytesMax = 4 << 20;
const windowBytes = 8 << 20;
const turn = new SendTurn((run) => void setImmediate(run));

interface Waiting {
  readonly count: number;
  readonly send: (tasks: worker.Task[]) => void;
}

let waiting: Waiting[] = [];
let tasks: worker.Task[] = [];
let created = 0;

/** Answers that wait until their bytes are synced; those that come during a sync share the next. */
class Group {
  readonly #file: number | undefined =
    mode === "fsync" && logPath !== undefined ? openSync(logPath, "a") : undefined;
  #bytes: Uint8Array[] = [];
  #answers: (() => void)[] = [];
  #isOpen = false;

  add(bytes: Uint8Array, answer: () => void): void {
    if (this.#file === undefined) {
      answer();
      return;
    }
    this.#bytes.push(bytes);
    this.#answers.push(answer);
    if (this.#isOpen) return;
    this.#isOpen = true;
    setImmediate(() => this.#sync());
  }

  #sync(): void {
    const file = this.#file as number;
    const answers = this.#answers;
    const bytes = Buffer.concat(this.#bytes);
    this.#bytes = [];
    this.#answers = [];
    write(file, bytes, () => {
      fdatasync(file, () => {
        for (const answer of answers) answer();
        this.#isOpen = this.#answers.length > 0;
        if (this.#isOpen) this.#sync();
      });
    });
  }
}

const group = new Group();

type Send<Event> = (event: Event) => void;

function produce(bytes: Buffer, send: Send<producer.ServerEvent>): void {
  const event = decodeMessage(producer.readProducerEvent, bytes);
  if (event.case === "hello") {
    send({ case: "helloAck", value: producer.newHelloAck() });
  } else if (event.case === "create") {
    const task = event.value;
    group.add(bytes, () => {
      send({ case: "createAck", value: take(task) });
      hand();
    });
  } else if (event.case === "createBatch") {
    const batch = event.value.tasks;
    group.add(bytes, () => {
      send({ case: "createAckBatch", value: { acks: batch.map(take) } });
      hand();
    });
  }
}

function work(bytes: Buffer, send: Send<worker.ServerEvent>): void {
  const event = decodeMessage(worker.readWorkerEvent, bytes);
  if (event.case === "hello") {
    send({ case: "helloAck", value: worker.newHelloAck() });
  } else if (event.case === "ready") {
    const { count } = event.value;
    const sendTasks = (batch: worker.Task[]): void => {
      if (count > 1) send({ case: "taskBatch", value: { tasks: batch } });
      else send({ case: "task", value: { task: batch[0] } });
    };
    // A claim is a write as well.
    waiting.push({ count, send: (batch) => group.add(bytes, () => sendTasks(batch)) });
    hand();
  } else if (event.case === "result") {
    const result = event.value;
    group.add(bytes, () => send({ case: "resultAck", value: acknowledge(result) }));
  } else if (event.case === "resultBatch") {
    const { results } = event.value;
    const acks = (): worker.ResultAck[] => results.map(acknowledge);
    group.add(bytes, () => send({ case: "resultAckBatch", value: { acks: acks() } }));
  }
}

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

function serve<Event>(
  stream: ServerHttp2Stream,
  encode: WireWrite<Event>,
  handle: (bytes: Buffer, send: Send<Event>) => void,
): void {
  const frames = new FrameReader({ messageBytesMax, encoding: undefined });
  const nothing = (): void => {};
  const queue = new SendQueue({
    turn,
    sink: stream,
    messageBytesMax,
    onFirst: nothing,
    onSent: nothing,
  });
  stream.respond({ ":status": 200, "content-type": "application/grpc+proto" });
  stream.on("error", nothing);
  stream.on("data", (chunk: Buffer) => {
    frames.push(chunk);
    for (let bytes = frames.next(); bytes !== undefined; bytes = frames.next()) {
      handle(bytes, (event) => void queue.add(encode, event));
    }
  });
}

const server = createServer({ settings: { initialWindowSize: windowBytes } });
server.on("session", (session) => session.setLocalWindowSize(windowBytes));
server.on("stream", (stream, headers) => {
  if (headers[":path"] === "/producerpb.ProducerStream/Stream") {
    serve(stream, producer.writeServerEvent, produce);
  } else {
    serve(stream, worker.writeServerEvent, work);
  }
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  const line = { msg: "listening", workerStreamPort: port, producerStreamPort: port };
  console.log(JSON.stringify(line));
});
