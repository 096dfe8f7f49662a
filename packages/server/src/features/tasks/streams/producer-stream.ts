/**
 * The producer stream: tasks arrive, and each is acknowledged when it is durable. A producer can also wait
 * for any number of results on the stream, without a connection for each.
 */
import { producer } from "@codeq/protocol/wire";
import type { Enqueued, Refused, Waiter } from "../../../core/broker/verbs.ts";
import type { MaybePromise } from "../../../core/maybe-promise.ts";
import type { UniqueInput } from "../../../core/records/unique-record.ts";
import type { Identity } from "../../../edge/access/identity.ts";
import type { Caller } from "../../../edge/dispatch.ts";
import {
  delaySecondsIn,
  inMessages,
  itemsPerTurnMax,
  type Protocol,
  type StreamCall,
  type StreamCallParts,
  StreamCounts,
  type StreamHandler,
  secondHello,
  textIn,
  unknownEvent,
} from "../../../edge/grpc/stream-call.ts";
import { isJson } from "../../../edge/json-scan.ts";
import { type Answer, type Refusal, refusal, sentenceOf } from "../../../edge/operation.ts";
import { isPlainJson } from "../../../edge/plain-json.ts";
import { refusalOf } from "../../../edge/refusal-of.ts";
import { type CreateTaskInput, create, createTask, noteRefused } from "../create-task.ts";
import { AwaitedResults } from "./awaited-results.ts";

type Event = producer.ProducerEvent;
type Reply = producer.ServerEvent;

/** Creations of one message, until all of them are answered. */
class PendingCreates implements Waiter<Enqueued> {
  readonly bytes: number;
  readonly isBatch: boolean;
  readonly startedMs: number;
  /** One for each task, in order; `ok` is false until the task is durable. */
  readonly acks: producer.CreateAck[] = [];
  refusals = 0;
  readonly #handler: ProducerHandler;
  readonly #tasks: readonly producer.CreateTask[];
  /** Open tasks, plus one until all were decided. */
  #left: number;

  constructor(
    handler: ProducerHandler,
    tasks: readonly producer.CreateTask[],
    of: { readonly bytes: number; readonly isBatch: boolean; readonly startedMs: number },
  ) {
    this.#handler = handler;
    this.#tasks = tasks;
    this.bytes = of.bytes;
    this.isBatch = of.isBatch;
    this.startedMs = of.startedMs;
    this.#left = tasks.length + 1;
    for (const { seq } of tasks) {
      this.acks.push({
        seq,
        ok: false,
        taskId: "",
        errorMessage: "",
        errorCode: "",
        deduplicated: false,
      });
    }
  }

  durable({ task, deduplicated }: Enqueued, item: number): void {
    const ack = this.acks[item] as producer.CreateAck;
    ack.ok = true;
    ack.taskId = task.id;
    ack.deduplicated = deduplicated;
    this.settle();
  }

  refused(why: Refused, item: number): void {
    this.refuse(this.#handler.refusalOf(why), item);
  }

  refuse(refused: Refusal, item: number): void {
    const ack = this.acks[item] as producer.CreateAck;
    ack.errorMessage = sentenceOf(refused);
    ack.errorCode = refused.code;
    this.#handler.noteRefused(this.#tasks[item] as producer.CreateTask, refused);
    this.refusals += 1;
    this.settle();
  }

  /** Counts one answer. */
  settle(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#handler.created(this);
  }
}

export function producerProtocol(parts: StreamCallParts): Protocol<Event, Reply> {
  return {
    access: "producer",
    counts: new StreamCounts(),
    read: producer.readProducerEvent,
    write: producer.writeServerEvent,
    missingToken: "missing token",
    greetingOf: (event) =>
      event.case === "hello" ? { token: event.value.token, name: "" } : undefined,
    errorReply: (value) => ({ case: "error", value: { ...value } }),
    begin: (streamCall, identity) => {
      const { tenantId, subject } = identity;
      const { instance } = parts;
      streamCall.send({ case: "helloAck", value: { tenantId, subject, instance } });
      return new ProducerHandler(parts, streamCall, identity);
    },
  };
}

class ProducerHandler implements StreamHandler<Event> {
  readonly #parts: StreamCallParts;
  readonly #streamCall: StreamCall<Reply>;
  readonly #call: Caller;
  readonly #results: AwaitedResults;

  constructor(parts: StreamCallParts, streamCall: StreamCall<Reply>, identity: Identity) {
    this.#parts = parts;
    this.#streamCall = streamCall;
    this.#call = { identity, signal: undefined, from: streamCall.from };
    this.#results = new AwaitedResults(parts.dispatch, streamCall, identity);
  }

  take(event: Event, bytes: number): MaybePromise<void> {
    switch (event.case) {
      case "create":
        return this.#create([event.value], { bytes, isBatch: false });
      case "createBatch": {
        const { tasks } = event.value;
        return tasks.length === 0 ? undefined : this.#create(tasks, { bytes, isBatch: true });
      }
      case "awaitResult":
        this.#results.wait(event.value).catch((error: unknown) => this.#streamCall.fail(error));
        return undefined;
      case "hello":
        this.#streamCall.refuse(secondHello);
        return undefined;
      case undefined:
        this.#streamCall.refuse(unknownEvent);
        return undefined;
    }
  }

  /** Awaited results are dropped: the producer asks again on its next stream. */
  finish(): void {
    this.#results.end();
    this.#streamCall.drain();
  }

  /** Accepted tasks are created, but not acknowledged. */
  closed(): void {
    this.#results.end();
  }

  /** Only results are paused: acknowledgements are bounded by the events that the stream has read. */
  slowed(isSlow: boolean): void {
    this.#results.slowed(isSlow);
  }

  /**
   * Decides about all tasks of a message in one turn, so that they share commits. A message over a limit is
   * refused as a whole, with an acknowledgement for each task.
   */
  #create(
    tasks: readonly producer.CreateTask[],
    of: { readonly bytes: number; readonly isBatch: boolean },
  ): MaybePromise<void> {
    const { dispatch, clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    const pending = new PendingCreates(this, tasks, { ...of, startedMs });
    this.#streamCall.unanswered(of.bytes);
    const refused = this.#refusalOf(tasks.length);
    const decide = (task: producer.CreateTask, item: number): void => {
      const input = refused ?? toInput(task);
      const problem = input.ok ? this.#createOne(input.value, pending, item) : input;
      if (problem === undefined) return;
      // A refusal of the whole message was noted already.
      if (refused === undefined) {
        dispatch.noteRefusal(createTask.name, problem, this.#call);
      }
      pending.refuse(problem, item);
    };
    if (tasks.length > itemsPerTurnMax && refused === undefined) {
      return this.#streamCall.inTurns(tasks, decide).then(() => pending.settle());
    }
    for (let item = 0; item < tasks.length; item++) {
      decide(tasks[item] as producer.CreateTask, item);
    }
    pending.settle();
    return undefined;
  }

  /** A bug fails this task, not the stream. */
  #createOne(input: CreateTaskInput, pending: PendingCreates, item: number): Refusal | undefined {
    const { dispatch } = this.#parts;
    try {
      return create(dispatch.server, this.#call, input, pending, item);
    } catch (error) {
      return dispatch.asRefusal(createTask, error);
    }
  }

  /** All tasks of a message are durable or refused. */
  created(pending: PendingCreates): void {
    const { acks, refusals, startedMs } = pending;
    const answered = { ok: acks.length - refusals, refused: refusals, startedMs };
    this.#parts.dispatch.noteItems(createTask, answered);
    if (pending.isBatch) {
      for (const some of inMessages(acks)) {
        this.#streamCall.send({ case: "createAckBatch", value: { acks: some } });
      }
    } else {
      this.#streamCall.send({ case: "createAck", value: acks[0] as producer.CreateAck });
    }
    this.#streamCall.answered(pending.bytes);
  }

  noteRefused(task: producer.CreateTask, refused: Refusal): void {
    noteRefused(this.#parts.dispatch.server, this.#call, task, refused);
  }

  refusalOf(why: Refused): Refusal {
    return refusalOf(this.#parts.dispatch.server, why);
  }

  /** Why a message with so many tasks is refused as a whole. */
  #refusalOf(tasks: number): Refusal | undefined {
    const { dispatch } = this.#parts;
    const refused = dispatch.enter(createTask, this.#call);
    if (refused !== undefined) return refused;
    const admitted = dispatch.admit(createTask, this.#call.identity);
    return admitted.ok ? admitted.value.countAs(tasks) : admitted;
  }
}

function uniqueIn(task: producer.CreateTask): UniqueInput {
  const { uniqueKey: key, uniqueWhile, uniqueOn: on, uniqueFor, uniqueMaxWait: maxWait } = task;
  return { key, while: uniqueWhile, on, for: uniqueFor, maxWait };
}

function toInput(task: producer.CreateTask): Answer<CreateTaskInput> {
  const command = task.command.trim();
  if (command === "") return refusal("invalid_argument", "command is required");
  if (task.delaySeconds < 0) {
    return refusal("invalid_argument", "delaySeconds must be >= 0");
  }
  const payload = textIn(task.payload);
  if (payload === undefined) return refusal("invalid_argument", "invalid payload (must be UTF-8)");
  if (payload !== "" && !isPlainJson(task.payload) && !isJson(payload)) {
    return refusal("invalid_argument", "invalid payload (must be JSON)");
  }
  return {
    ok: true,
    value: {
      command,
      payload: payload === "" ? "null" : payload,
      priority: task.priority,
      webhook: task.webhook,
      maxAttempts: task.maxAttempts,
      idempotencyKey: task.idempotencyKey,
      idempotencyMode: task.idempotencyMode,
      unique: task.uniqueKey === "" ? undefined : uniqueIn(task),
      batchId: task.batchId,
      after: task.after,
      lane: task.lane,
      cost: task.cost,
      runAt: task.runAtMs ?? "",
      delaySeconds: delaySecondsIn(task),
      timeoutSeconds: task.timeoutSeconds,
      ttlSeconds: task.ttlSeconds,
      tags: task.tags,
      traceParent: task.traceParent,
      traceState: task.traceState,
    },
  };
}
