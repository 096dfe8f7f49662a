/** A worker on a stream: keeps Readys waiting, and ends every task it gets in one way or another. */
import { textOf, type WireUint64, worker } from "@codeq/protocol/wire";
import { type ClientConnection, type WorkerStream, workerWire } from "./stream-client.ts";
import { commands, type SoakWorld, token } from "./world.ts";

type Event = worker.WorkerEvent;
type Outcome = "complete" | "fail" | "nack" | "abandon" | "interrupt" | "heartbeat" | "forget";

/** What a worker can be told about a task that has come back in the meantime. */
const lateTexts = ["not-in-progress", "not-owner"];
const resultJson = '{"done":true}';
const noLane = { holdSeconds: 0, used: undefined };
const failure = "it did not work";

const mix: readonly (readonly [number, Outcome])[] = [
  [0.7, "complete"],
  [0.76, "fail"],
  [0.83, "nack"],
  [0.88, "abandon"],
  [0.9, "interrupt"],
  [0.98, "heartbeat"],
  [1, "forget"],
];

export class Worker {
  readonly stream: WorkerStream;
  readonly name: string;
  readonly #world: SoakWorld;
  readonly #submitted: Map<string, "completed" | "failed"> = new Map();
  #onHello: () => void = () => {};
  /** Called with what was delivered, in place of working on it. */
  onTasks: (tasks: readonly worker.Task[]) => void = (tasks) => this.work(tasks);

  constructor(world: SoakWorld, connection: ClientConnection, name: string) {
    this.#world = world;
    this.name = name;
    this.stream = connection.open(workerWire);
    this.stream.onReply = (reply) => this.#take(reply);
  }

  greet(onHello: () => void = () => {}): void {
    this.#onHello = onHello;
    this.stream.send({ case: "hello", value: { token, workerId: this.name } });
  }

  ready(count: number, fields: Partial<worker.Ready> = {}): void {
    this.#world.ledger.count("Readys sent");
    this.stream.send(this.readyEvent(count, fields));
  }

  readyEvent(count: number, fields: Partial<worker.Ready> = {}): Event {
    const { random } = this.#world;
    const leaseSeconds = random.pick(this.#world.leaseSeconds);
    return { case: "ready", value: { commands: this.#wanted(), leaseSeconds, count, ...fields } };
  }

  /** Everything, one command, or all that are small. */
  #wanted(): string[] {
    const { random, isDraining } = this.#world;
    const draw = isDraining ? 0 : random.next();
    if (draw < 0.2) return [];
    return draw < 0.4 ? [random.pick(commands)] : [...commands];
  }

  /** Ends each of them; results of several go together. */
  work(tasks: readonly worker.Task[]): void {
    const results: worker.Result[] = [];
    for (const task of tasks) {
      const outcome = this.#choose();
      if (outcome === "complete" || outcome === "fail") results.push(this.#result(task, outcome));
      else this.#send(task, outcome);
    }
    const [first] = results;
    if (first === undefined) return;
    if (results.length === 1) this.stream.send({ case: "result", value: first });
    else this.stream.send({ case: "resultBatch", value: { results } });
  }

  #choose(): Outcome {
    if (this.#world.isDraining) return "complete";
    const draw = this.#world.random.next();
    return mix.find(([below]) => draw < below)?.[1] ?? "complete";
  }

  #send(task: worker.Task, outcome: Outcome): void {
    const { random, ledger } = this.#world;
    const owned = { taskId: task.id, leaseToken: task.leaseToken };
    switch (outcome) {
      case "nack": {
        const delaySeconds = random.int(2);
        this.stream.send({
          case: "nack",
          value: { ...owned, ...noLane, delaySeconds, delayMs: 0, reason: failure, stack: "" },
        });
        return;
      }
      case "abandon":
      case "interrupt":
        this.stream.send({
          case: "abandon",
          value: { ...owned, interrupted: outcome === "interrupt" },
        });
        return;
      case "heartbeat":
        this.stream.send({
          case: "heartbeat",
          value: { ...worker.newHeartbeat(), ...owned, extendSeconds: 5 },
        });
        // Applied in this order.
        this.stream.send({ case: "result", value: this.#result(task, "complete") });
        return;
      default:
        ledger.count("tasks left to their lease");
    }
  }

  #take(reply: worker.ServerEvent): void {
    const { ledger } = this.#world;
    switch (reply.case) {
      case "helloAck":
        this.#onHello();
        return;
      case "task":
        if (reply.value.task === undefined) ledger.problem("an assignment without a task came");
        else this.#deliver([reply.value.task]);
        return;
      case "taskBatch":
        this.#deliver(reply.value.tasks);
        return;
      case "resultAck":
        this.#ended(reply.value);
        return;
      case "resultAckBatch":
        for (const ack of reply.value.acks) this.#ended(ack);
        return;
      case "nackAck":
        this.#cameBack("nacks", reply.value);
        if (reply.value.dlq) ledger.ended(reply.value.taskId, "buried", this.name);
        return;
      case "abandonAck":
        this.#cameBack("abandons", reply.value);
        return;
      case "heartbeatAck":
        this.#cameBack("heartbeats", reply.value);
        return;
      default:
        ledger.problem(`${this.name} was told ${JSON.stringify(reply)}`);
    }
  }

  #deliver(tasks: readonly worker.Task[]): void {
    const { ledger } = this.#world;
    if (tasks.length === 0) ledger.problem(`${this.name} got an empty batch`);
    for (const task of tasks) {
      const { id, leaseToken } = task;
      const payload = textOf(task.payload);
      ledger.delivered({ id, payload, leaseToken: Number(leaseToken) });
    }
    this.onTasks(tasks);
  }

  #result(task: worker.Task, outcome: "complete" | "fail"): worker.Result {
    const { id: taskId, leaseToken } = task;
    const of = { taskId, leaseToken, artifacts: [], stack: "", used: undefined };
    this.#submitted.set(
      leaseOf(task.id, leaseToken),
      outcome === "complete" ? "completed" : "failed",
    );
    return outcome === "complete"
      ? { ...of, status: "COMPLETED", resultJson, error: "" }
      : { ...of, status: "FAILED", resultJson: "", error: failure };
  }

  #ended({ taskId, ok, errorMessage, leaseToken }: worker.ResultAck): void {
    const { ledger } = this.#world;
    const lease = leaseOf(taskId, leaseToken);
    const submitted = this.#submitted.get(lease);
    this.#submitted.delete(lease);
    if (!ok) this.#late("results", errorMessage);
    else if (submitted !== undefined) ledger.ended(taskId, submitted, this.name);
    else ledger.problem(`${this.name} never sent the result of ${taskId}`);
  }

  #cameBack(what: string, ack: { ok: boolean; errorMessage: string }): void {
    if (ack.ok) this.#world.ledger.count(what);
    else this.#late(what, ack.errorMessage);
  }

  #late(what: string, text: string): void {
    const { ledger } = this.#world;
    if (lateTexts.includes(text)) ledger.count(`${what} that came late`);
    else ledger.problem(`${this.name}: ${what} were refused: ${text}`);
  }
}

/** A worker may have had the same task before, and hears of both. */
function leaseOf(taskId: string, leaseToken: WireUint64): string {
  return `${taskId} ${leaseToken}`;
}
