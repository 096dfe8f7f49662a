/**
 * The producer stream: tasks come in, and each is acknowledged when it is durable. A producer may also
 * wait for results here, as many as there are, without holding a connection for each.
 */
import { setMaxListeners } from "node:events";
import { producer } from "@codeq/protocol/wire";
import type { TaskId } from "@codeq/queue";
import type { Identity } from "../../access/identity.ts";
import { type MaybePromise, whenKnown } from "../../maybe-promise.ts";
import type { CreateTaskInput } from "../../operations/create-task.ts";
import type { Caller } from "../../operations/dispatch.ts";
import type { TaskWithResult } from "../../operations/get-result.ts";
import { operations } from "../../operations/index.ts";
import {
  type Admission,
  type Answer,
  type Refusal,
  refusal,
  sentenceOf,
} from "../../operations/operation.ts";
import { traceContext } from "../trace-context.ts";
import { echoOf, inMessages } from "./acks.ts";
import {
  type Conversation,
  type Protocol,
  type Session,
  type SessionParts,
  secondHello,
  unknownEvent,
} from "./session.ts";
import { StreamCounts } from "./stream-counts.ts";
import { textIn } from "./text-in.ts";

type Event = producer.ProducerEvent;
type Reply = producer.ServerEvent;

/** Results that one stream may wait for. */
const awaitsMax = 16_384;

export function producerProtocol(parts: SessionParts): Protocol<Event, Reply> {
  return {
    access: "producer",
    counts: new StreamCounts(),
    read: producer.readProducerEvent,
    write: producer.writeServerEvent,
    missingToken: "missing token",
    greetingOf: (event) =>
      event.case === "hello" ? { token: event.value.token, name: "" } : undefined,
    errorReply: (value) => ({ case: "error", value: { ...value } }),
    begin: (session, identity) => {
      const { tenantId, subject } = identity;
      const { instance } = parts;
      session.send({ case: "helloAck", value: { tenantId, subject, instance } });
      return new ProducerConversation(parts, session, identity);
    },
  };
}

class ProducerConversation implements Conversation<Event> {
  readonly #parts: SessionParts;
  readonly #session: Session<Reply>;
  readonly #call: Caller;
  readonly #awaitUntil: AbortController = new AbortController();
  #awaits = 0;

  constructor(parts: SessionParts, session: Session<Reply>, identity: Identity) {
    this.#parts = parts;
    this.#session = session;
    this.#call = { identity, signal: undefined, from: session.from };
    setMaxListeners(0, this.#awaitUntil.signal);
  }

  take(event: Event): MaybePromise<void> {
    switch (event.case) {
      case "create":
        return this.#create(event.value);
      case "createBatch":
        return event.value.tasks.length === 0 ? undefined : this.#createBatch(event.value.tasks);
      case "awaitResult":
        void this.#await(event.value);
        return undefined;
      case "hello":
        this.#session.refuse(secondHello);
        return undefined;
      case undefined:
        this.#session.refuse(unknownEvent);
        return undefined;
    }
  }

  /** What is waited for is not: the producer asks again on its next stream. */
  finish(): void {
    this.#awaitUntil.abort();
    this.#session.drain();
  }

  /** What was taken is finished and acknowledged to nobody. */
  closed(): void {
    this.#awaitUntil.abort();
  }

  /** Answers are as many as there are events, and the stream reads no more of those. */
  slowed(): void {}

  #create(task: producer.CreateTask): MaybePromise<void> {
    return whenKnown(this.#ack(task), (value) => this.#session.send({ case: "createAck", value }));
  }

  /**
   * Those of one turn are decided before the first is awaited, so that they share commits. What a
   * limit does not allow is refused as a whole, with an acknowledgement for each.
   */
  async #createBatch(tasks: readonly producer.CreateTask[]): Promise<void> {
    const admitted = this.#admit(tasks.length);
    const all = admitted.ok
      ? await this.#session.inTurns(tasks, (task) => this.#ack(task, admitted.value))
      : tasks.map(({ seq }) => refusedAck(seq, admitted));
    for (const acks of inMessages(all)) {
      this.#session.send({ case: "createAckBatch", value: { acks } });
    }
  }

  async #await({ taskId, waitSeconds }: producer.AwaitResult): Promise<void> {
    const answer = this.#awaits < awaitsMax ? await this.#result(taskId, waitSeconds) : tooMany;
    const value = answer.ok ? resultOf(taskId, answer.value) : noResult(taskId, answer);
    this.#session.send({ case: "taskResult", value });
  }

  async #result(taskId: string, waitSeconds: number): Promise<Answer<TaskWithResult>> {
    this.#awaits += 1;
    const call = { identity: this.#call.identity, signal: this.#awaitUntil.signal };
    const input = { id: taskId as TaskId, waitSeconds };
    const answer = await this.#parts.dispatch.run(operations.getResult, call, input);
    this.#awaits -= 1;
    return answer;
  }

  #admit(tasks: number): Answer<Admission> {
    const admitted = this.#parts.dispatch.admit(operations.createTasks, this.#call.identity);
    if (!admitted.ok) return admitted;
    return admitted.value.countAs(tasks) ?? admitted;
  }

  #ack(task: producer.CreateTask, admission?: Admission): MaybePromise<producer.CreateAck> {
    const { seq } = task;
    const input = toInput(task);
    if (!input.ok) return refusedAck(seq, input);
    const { identity, signal, from } = this.#call;
    const call = { identity, signal, from, admission };
    return whenKnown(
      this.#parts.dispatch.run(operations.createTask, call, input.value),
      (answer) =>
        answer.ok
          ? { seq, ok: true, taskId: answer.value.task.id, errorMessage: "", errorCode: "" }
          : refusedAck(seq, answer),
    );
  }
}

function refusedAck(seq: producer.CreateTask["seq"], refused: Refusal): producer.CreateAck {
  const errorMessage = sentenceOf(refused);
  return { seq, ok: false, taskId: "", errorMessage, errorCode: refused.code };
}

const tooMany = refusal("overloaded", `more than ${awaitsMax} results are waited for`);

function resultOf(taskId: string, { task, result }: TaskWithResult): producer.TaskResult {
  const { status, resultJson, error } = result;
  const { attempts } = task;
  const ok = { ok: true, errorMessage: "", errorCode: "" };
  return { taskId, ...ok, status, resultJson, error, attempts };
}

function noResult(taskId: string, refused: Refusal): producer.TaskResult {
  const errorMessage = sentenceOf(refused);
  const { code: errorCode } = refused;
  return { ...producer.newTaskResult(), taskId: echoOf(taskId), errorMessage, errorCode };
}

function toInput(task: producer.CreateTask): Answer<CreateTaskInput> {
  const command = task.command.trim();
  if (command === "") return refusal("invalid_argument", "command is required");
  if (task.delaySeconds < 0) {
    return refusal("invalid_argument", "delaySeconds must be >= 0");
  }
  const payload = textIn(task.payload);
  if (payload === undefined) return refusal("invalid_argument", "invalid payload (must be UTF-8)");
  return {
    ok: true,
    value: {
      command,
      payload: payload === "" ? "null" : payload,
      priority: task.priority,
      webhook: task.webhook,
      maxAttempts: task.maxAttempts,
      idempotencyKey: task.idempotencyKey,
      runAt: task.runAtMs ?? "",
      delaySeconds: task.delaySeconds,
      ...traceContext(task.traceParent, task.traceState),
    },
  };
}
