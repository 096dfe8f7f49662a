/** The load of the stream benchmark: one producer stream, and worker streams that share the slots. */
import { producer, textOf, worker } from "@codeq/protocol/wire";
import { ageOf, type CreateCall, type LoadOptions, type Meter, runLoad } from "./load.ts";
import { type ProducerStream, StreamConnection, type WorkerStream } from "./stream-client.ts";

export interface StreamLoadOptions extends LoadOptions {
  readonly producerPort: number;
  readonly workerPort: number;
  readonly workerStreams: number;
  /** Of the tasks; each of several loads has one, so that it finishes what it created. */
  readonly command?: string;
}

const token = "dev-token";
const status = "COMPLETED";
const resultJson: Buffer = Buffer.from('{"ok":true}');

/** Tasks are numbered by who sends them, so that an answer finds its producer without a search. */
function creator(stream: ProducerStream, options: StreamLoadOptions, meter: Meter): CreateCall {
  const { batch, command = "bench" } = options;
  const pending = Array.from({ length: options.producers }, () => ({
    sentMs: 0,
    done: (): void => {},
  }));
  const answered = (acks: readonly producer.CreateAck[]): void => {
    for (const ack of acks) if (!ack.ok) throw new Error(`a create failed: ${ack.errorMessage}`);
    const call = pending[Math.floor(Number(acks[0]?.seq) / batch)];
    if (call === undefined) throw new Error("an answer to nothing that was asked");
    meter.took("create", performance.now() - call.sentMs);
    call.done();
  };
  stream.onReply = (reply) => {
    if (reply.case === "createAck") answered([reply.value]);
    else if (reply.case === "createAckBatch") answered(reply.value.acks);
    else throw new Error(`unexpected: ${JSON.stringify(reply)}`);
  };
  return (index, payload, done) => {
    const call = pending[index];
    if (call === undefined) throw new Error(`there is no producer ${index}`);
    const newTask = (seq: number): producer.CreateTask => ({
      ...producer.newCreateTask(),
      seq,
      command,
      payload,
    });
    call.done = done;
    call.sentMs = performance.now();
    if (batch === 1) {
      stream.send({ case: "create", value: newTask(index) });
      return;
    }
    const tasks = Array.from({ length: batch }, (_, i) => newTask(index * batch + i));
    stream.send({ case: "createBatch", value: { tasks } });
  };
}

/**
 * The slots of one stream. Each has one Ready out; when its tasks arrive it sends their results and
 * the next Ready in one breath, as clients do that do not wait for the acknowledgement.
 */
class WorkerSlots {
  readonly #stream: WorkerStream;
  readonly #meter: Meter;
  readonly #finished: (count: number) => void;
  readonly #options: StreamLoadOptions;
  readonly #commands: string[];
  /** When each Ready was sent that was not served, oldest first. */
  readonly #readysMs: number[] = [];
  /** When each result was sent that was not acknowledged, by its task: shards answer in any order. */
  readonly #submittedMs: Map<string, number> = new Map();

  constructor(parts: {
    readonly stream: WorkerStream;
    readonly meter: Meter;
    readonly finished: (count: number) => void;
    readonly options: StreamLoadOptions;
  }) {
    this.#stream = parts.stream;
    this.#meter = parts.meter;
    this.#finished = parts.finished;
    this.#options = parts.options;
    this.#commands = [parts.options.command ?? "bench"];
  }

  start(slots: number): void {
    this.#stream.onReply = (reply) => this.#take(reply);
    for (let slot = 0; slot < slots; slot += 1) this.#ready();
  }

  #ready(): void {
    this.#readysMs.push(performance.now());
    const count = this.#options.batchOut;
    this.#stream.send({
      case: "ready",
      value: { commands: this.#commands, leaseSeconds: 0, count },
    });
  }

  #take(reply: worker.ServerEvent): void {
    switch (reply.case) {
      case "task":
        this.#work([reply.value.task ?? worker.newTask()]);
        return;
      case "taskBatch":
        this.#work(reply.value.tasks);
        return;
      case "resultAck":
        this.#acknowledged([reply.value]);
        return;
      case "resultAckBatch":
        this.#acknowledged(reply.value.acks);
        return;
      default:
        throw new Error(`unexpected: ${JSON.stringify(reply)}`);
    }
  }

  #work(tasks: readonly worker.Task[]): void {
    const nowMs = performance.now();
    this.#meter.delivered();
    this.#meter.took("claim", nowMs - (this.#readysMs.shift() ?? nowMs));
    if (this.#options.part === "paced") {
      for (const { payload } of tasks) this.#meter.took("pickup", ageOf(textOf(payload)));
    }
    for (const { id } of tasks) this.#submittedMs.set(id, nowMs);
    const results = tasks.map(toResult);
    if (this.#options.batchOut > 1) {
      this.#stream.send({ case: "resultBatch", value: { results } });
    } else {
      for (const value of results) this.#stream.send({ case: "result", value });
    }
    this.#ready();
  }

  #acknowledged(acks: readonly worker.ResultAck[]): void {
    let sentMs = 0;
    for (const { ok, taskId, errorMessage } of acks) {
      if (!ok) throw new Error(`a result was refused: ${errorMessage}`);
      const submittedMs = this.#submittedMs.get(taskId);
      if (submittedMs === undefined) throw new Error(`${taskId} is acknowledged a second time`);
      this.#submittedMs.delete(taskId);
      sentMs = submittedMs;
    }
    this.#meter.took("submit", performance.now() - sentMs);
    this.#finished(acks.length);
  }
}

function toResult({ id, leaseToken }: worker.Task): worker.Result {
  return {
    taskId: id,
    status,
    resultJson,
    error: "",
    stack: "",
    leaseToken,
    artifacts: [],
    used: undefined,
  };
}

await runLoad<StreamLoadOptions>(async (options, meter, finished) => {
  const workers = await StreamConnection.open(options.workerPort);
  for (let index = 0; index < options.workerStreams; index += 1) {
    const stream = await workers.worker(token, `worker-${index}`);
    // Divided as evenly as it goes.
    const slots = Math.floor((options.slots + index) / options.workerStreams);
    new WorkerSlots({ stream, meter, finished, options }).start(slots);
  }
  const producers = await StreamConnection.open(options.producerPort);
  return { create: creator(await producers.producer(token), options, meter) };
});
