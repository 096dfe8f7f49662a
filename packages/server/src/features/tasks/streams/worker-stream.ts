/**
 * The worker stream. A Ready asks for tasks and waits until there are some. Results, nacks and heartbeats are
 * acknowledged when they are durable, and for each task in the order of its events. Tasks that were claimed
 * for a stream but not sent before it closed go back immediately. A task that is too large for a message does
 * not go back: it would end the next stream too, and its lease makes that rare.
 */
import { type ErrorCode, errors } from "@codeq/protocol";
import { type WireBytes, type WireUint64, worker } from "@codeq/protocol/wire";
import type { TaskId } from "@codeq/queue";
import type { ClaimedTask, Refused, Submitted, Waiter } from "../../../core/broker/verbs.ts";
import type { MaybePromise } from "../../../core/maybe-promise.ts";
import { type Identity, workerIdOf } from "../../../edge/access/identity.ts";
import type { Caller } from "../../../edge/dispatch.ts";
import {
  delaySecondsIn,
  echoOf,
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
import {
  type Answer,
  type Operation,
  type Refusal,
  refusal,
  sentenceOf,
} from "../../../edge/operation.ts";
import { isPlainJson } from "../../../edge/plain-json.ts";
import { refusalOf } from "../../../edge/refusal-of.ts";
import { claimTasks } from "../claim-tasks.ts";
import { extendLease } from "../extend-lease.ts";
import { abandonTask, nackTask } from "../return-task.ts";
import {
  type ArtifactInput,
  noteRefused,
  type SubmitResultInput,
  submitAny,
  submitNow,
  submitResult,
} from "../submit-result.ts";
import { AckOrder, OrderedAcks } from "./ack-order.ts";
import { PendingReadys, type ReadyStream } from "./pending-readys.ts";
import { taskBatches, taskMessage } from "./task-messages.ts";

type Event = worker.WorkerEvent;
type Reply = worker.ServerEvent;

/** An event about one task. */
interface TaskEvent {
  readonly taskId: string;
  readonly leaseToken: WireUint64;
}

/**
 * Claimed tasks go back when the worker has more than this unread. The claims of several Readys may be sent in
 * one turn; this limit plus the largest claim stays below the limit that closes a call.
 */
const unreadBytesMax = 4 * 1024 * 1024;
const shownCharsMax = 100;

export function workerProtocol(parts: StreamCallParts): Protocol<Event, Reply> {
  const counts = new StreamCounts();
  return {
    access: "worker",
    counts,
    read: worker.readWorkerEvent,
    write: worker.writeServerEvent,
    missingToken: "auth failed: missing token",
    greetingOf: (event) =>
      event.case === "hello" ? { token: event.value.token, name: event.value.workerId } : undefined,
    errorReply: (value) => ({ case: "error", value: { ...value } }),
    begin: (streamCall, identity, name) => {
      const workerId = name === "" ? identity.subject : name;
      const { tenantId } = identity;
      const { instance } = parts;
      streamCall.send({ case: "helloAck", value: { workerId, tenantId, instance } });
      const owner = { ...identity, workerId: workerIdOf(identity.subject, name) };
      return new WorkerHandler({ ...parts, counts }, streamCall, owner, workerId);
    },
  };
}

interface WorkerParts extends StreamCallParts {
  readonly counts: StreamCounts;
}

/** Results of one message, until all of them are answered. */
class PendingResults extends OrderedAcks implements Waiter<Submitted> {
  readonly bytes: number;
  readonly isBatch: boolean;
  readonly startedMs: number;
  /** One for each result, in order. */
  readonly acks: worker.ResultAck[] = [];
  refusals = 0;
  readonly #handler: WorkerHandler;
  readonly #results: readonly worker.Result[];
  /** Open results, plus one until all were decided. */
  #left: number;

  constructor(
    handler: WorkerHandler,
    results: readonly worker.Result[],
    of: { readonly bytes: number; readonly isBatch: boolean; readonly startedMs: number },
  ) {
    super();
    this.#handler = handler;
    this.#results = results;
    this.bytes = of.bytes;
    this.isBatch = of.isBatch;
    this.startedMs = of.startedMs;
    this.#left = results.length + 1;
    for (const { taskId, leaseToken } of results) {
      this.acks.push({
        taskId: echoOf(taskId),
        ok: true,
        errorMessage: "",
        errorCode: "",
        leaseToken,
      });
    }
  }

  send(): void {
    this.#handler.acknowledge(this);
  }

  durable(): void {
    this.settle();
  }

  refused(why: Refused, item: number): void {
    this.refuse(this.#handler.refusalOf(why), item);
  }

  refuse(refused: Refusal, item: number): void {
    const ack = this.acks[item] as worker.ResultAck;
    ack.ok = false;
    ack.errorMessage = sentenceOf(refused);
    ack.errorCode = refused.code;
    this.#handler.noteRefused(this.#results[item] as worker.Result, refused);
    this.refusals += 1;
    this.settle();
  }

  /** Counts one answer. */
  settle(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#handler.submitted(this);
  }
}

/** A nack, heartbeat or abandon until it is answered. */
class PendingEvent extends OrderedAcks {
  readonly acks: readonly { readonly taskId: string }[];
  readonly sent: PromiseWithResolvers<void> = Promise.withResolvers();
  onTurn: () => void = () => {};

  constructor(taskId: string) {
    super();
    this.acks = [{ taskId: echoOf(taskId) }];
  }

  send(): void {
    this.onTurn();
    this.sent.resolve();
  }
}

class WorkerHandler implements StreamHandler<Event>, ReadyStream {
  readonly call: Caller;
  readonly #parts: WorkerParts;
  readonly #streamCall: StreamCall<Reply>;
  readonly #name: string;
  readonly #readys: PendingReadys;
  readonly #order = new AckOrder();
  readonly #disconnect: () => void;

  constructor(parts: WorkerParts, streamCall: StreamCall<Reply>, identity: Identity, name: string) {
    this.#parts = parts;
    this.#streamCall = streamCall;
    this.call = { identity, signal: undefined, from: streamCall.from };
    this.#name = name;
    this.#disconnect = parts.workers.add(identity, {
      client: streamCall.client,
      sendCancelled: (taskId) => {
        const value = { ...worker.newHeartbeatAck(), taskId, ok: true, cancelled: true };
        streamCall.send({ case: "heartbeatAck", value });
      },
    });
    this.#readys = new PendingReadys(parts, this);
  }

  take(event: Event, bytes: number): MaybePromise<void> {
    switch (event.case) {
      case "ready":
        this.#ready(event.value);
        return undefined;
      case "result":
        return this.#submit([event.value], { bytes, isBatch: false });
      case "resultBatch": {
        const { results } = event.value;
        return results.length === 0 ? undefined : this.#submit(results, { bytes, isBatch: true });
      }
      case "nack":
        return this.#mayDo(nackTask) ? this.#nack(event.value) : undefined;
      case "heartbeat":
        return this.#mayDo(extendLease) ? this.#heartbeat(event.value) : undefined;
      case "abandon":
        return this.#mayDo(abandonTask) ? this.#abandon(event.value) : undefined;
      case "hello":
        this.#streamCall.refuse(secondHello);
        return undefined;
      case undefined:
        this.#streamCall.refuse(unknownEvent);
        return undefined;
    }
  }

  /** Readys are closed: a worker that sends nothing more could not finish a task. */
  finish(): void {
    this.#readys.close();
    this.#streamCall.drain();
  }

  closed(): void {
    this.#disconnect();
    this.#readys.close();
  }

  slowed(isSlow: boolean): void {
    if (isSlow) this.#readys.suspend();
    else this.#readys.resume();
  }

  #mayDo<Input, Output>(operation: Operation<Input, Output>): boolean {
    const problem = this.#parts.dispatch.problemOf(operation, this.call);
    if (problem !== undefined) this.refuse(problem);
    return problem === undefined;
  }

  #ready({ commands, leaseSeconds, count }: worker.Ready): void {
    if (!this.#mayDo(claimTasks)) return;
    const wanted = commands.every(isPlain) ? commands : trimmed(commands);
    if (commands.length > 0 && wanted.length === 0) {
      this.refuse(refusal("event_type_not_allowed"));
      return;
    }
    const refused = this.#readys.add({ commands: wanted, leaseSeconds, count: Math.max(count, 1) });
    if (refused?.code === "overloaded") {
      const { text: message, code: errorCode } = refused;
      this.#streamCall.refuse({ code: "ResourceExhausted", message, errorCode });
    } else if (refused !== undefined) {
      this.refuse(refused);
    }
  }

  deliver(
    claimed: readonly ClaimedTask[],
    asBatch: boolean,
    unsent: (tasks: readonly ClaimedTask[]) => void,
  ): boolean {
    if (this.#streamCall.isClosed || this.#streamCall.pendingBytes > unreadBytesMax) return false;
    if (asBatch) {
      for (const { message, tasks } of taskBatches(claimed, this.#name)) {
        this.#streamCall.send(message, () => unsent(tasks));
      }
      return true;
    }
    for (const each of claimed) {
      const value = { task: taskMessage(each, this.#name) };
      this.#streamCall.send({ case: "task", value }, () => unsent([each]));
    }
    return true;
  }

  refuse({ code, text }: Refusal): void {
    this.#streamCall.refuse({ code: nameOf(code), message: text, errorCode: code });
  }

  noteRefused({ taskId }: worker.Result, refused: Refusal): void {
    const { server } = this.#parts.dispatch;
    noteRefused(server, this.call, { id: echoOf(taskId) as TaskId, workerId: "" }, refused);
  }

  refusalOf(why: Refused): Refusal {
    const refused = refusalOf(this.#parts.dispatch.server, why);
    return refused.code === "task_unknown" ? refusal("task_not_found") : refused;
  }

  /** Decides about all results of a message in one turn, so that they share commits. */
  #submit(
    results: readonly worker.Result[],
    of: { readonly bytes: number; readonly isBatch: boolean },
  ): MaybePromise<void> {
    if (!this.#mayDo(submitResult)) return undefined;
    const startedMs = this.#parts.clock.monotonicMs();
    const pending = new PendingResults(this, results, { ...of, startedMs });
    this.#order.begin(pending);
    this.#streamCall.unanswered(of.bytes);
    const refused = this.#refusalOfResults();
    const decide = (result: worker.Result, item: number): void => {
      const input = refused ?? toSubmission(result);
      if (input.ok) this.#submitOne(input.value, pending, item);
      else pending.refuse(input, item);
    };
    if (results.length > itemsPerTurnMax && refused === undefined) {
      return this.#streamCall.inTurns(results, decide).then(() => pending.settle());
    }
    for (let item = 0; item < results.length; item++) {
      decide(results[item] as worker.Result, item);
    }
    pending.settle();
    return undefined;
  }

  /** A bug fails this result, not the stream. */
  #submitOne(input: SubmitResultInput, pending: PendingResults, item: number): void {
    const { dispatch } = this.#parts;
    const failed = (error: unknown): void => {
      pending.refuse(dispatch.asRefusal(submitResult, error), item);
    };
    try {
      if (input.artifacts.length > 0) {
        this.#submitFiles(input, pending, item).catch(failed);
        return;
      }
      const problem = submitNow(dispatch.server, this.call, input, pending, item);
      if (problem === undefined) return;
      if (!(problem instanceof Promise)) pending.refuse(problem, item);
      else problem.then((refused) => pending.refuse(refused, item)).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Storing files takes time; later events do not wait for it. */
  async #submitFiles(
    input: SubmitResultInput,
    pending: PendingResults,
    item: number,
  ): Promise<void> {
    const answer = await submitAny(this.#parts.dispatch.server, this.call, input);
    if (answer.ok) pending.durable();
    else pending.refuse(answer, item);
  }

  /** Why a message with results is refused as a whole. */
  #refusalOfResults(): Refusal | undefined {
    const { dispatch } = this.#parts;
    const refused = dispatch.enter(submitResult, this.call);
    if (refused !== undefined) return refused;
    const admitted = dispatch.admit(submitResult, this.call.identity);
    return admitted.ok ? undefined : admitted;
  }

  /** All results of a message are durable or refused. */
  submitted(pending: PendingResults): void {
    const { acks, refusals, startedMs } = pending;
    const answered = { ok: acks.length - refusals, refused: refusals, startedMs };
    this.#parts.dispatch.noteItems(submitResult, answered);
    this.#order.ready(pending);
  }

  /** Sends the acknowledgements; called in the order of `AckOrder`. */
  acknowledge(pending: PendingResults): void {
    const { acks } = pending;
    if (pending.isBatch) {
      for (const some of inMessages(acks)) {
        this.#streamCall.send({ case: "resultAckBatch", value: { acks: some } });
      }
    } else {
      this.#streamCall.send({ case: "resultAck", value: acks[0] as worker.ResultAck });
    }
    this.#streamCall.answered(pending.bytes);
  }

  #nack(event: worker.Nack): Promise<void> {
    const { reason, stack, holdSeconds, used } = event;
    const lane = { holdMs: holdSeconds * 1000, used: used?.count };
    const input = { ...owned(event), ...lane, delaySeconds: delaySecondsIn(event), reason, stack };
    return this.#answer(event, this.#run(nackTask, input), (answer) => {
      const appliedDelaySeconds = answer.ok ? Math.ceil(answer.value.delaySeconds) : 0;
      const dlq = answer.ok && answer.value.buried;
      return { case: "nackAck", value: { ...ackOf(event, answer), appliedDelaySeconds, dlq } };
    });
  }

  #heartbeat(event: worker.Heartbeat): Promise<void> {
    const { extendSeconds, progress, logs } = event;
    const input = { ...owned(event), extendSeconds, progress, logs };
    return this.#answer(event, this.#run(extendLease, input), (answer) => {
      const cancelled = answer.ok && answer.value.isCancelled;
      return { case: "heartbeatAck", value: { ...ackOf(event, answer), cancelled } };
    });
  }

  #abandon(event: worker.Abandon): Promise<void> {
    const input = { ...owned(event), interrupted: event.interrupted };
    return this.#answer(event, this.#run(abandonTask, input), (answer) => ({
      case: "abandonAck",
      value: ackOf(event, answer),
    }));
  }

  /** Resolves when the event has been answered, in the order of `AckOrder`. */
  async #answer<Output>(
    { taskId }: TaskEvent,
    answered: MaybePromise<Answer<Output>>,
    replyOf: (answer: Answer<Output>) => Reply,
  ): Promise<void> {
    const pending = new PendingEvent(taskId);
    this.#order.begin(pending);
    const reply = replyOf(await answered);
    pending.onTurn = () => this.#streamCall.send(reply);
    this.#order.ready(pending);
    await pending.sent.promise;
  }

  #run<Input, Output>(
    operation: Operation<Input, Output>,
    input: Input,
  ): MaybePromise<Answer<Output>> {
    return this.#parts.dispatch.run(operation, this.call, input);
  }
}

function isPlain(command: string): boolean {
  return command !== "" && command.trim() === command;
}

function trimmed(commands: readonly string[]): string[] {
  return commands.map((command) => command.trim()).filter((command) => command !== "");
}

function owned({ taskId, leaseToken }: TaskEvent): {
  id: TaskId;
  leaseToken: number | undefined;
} {
  return { id: taskId as TaskId, leaseToken: tokenIn(leaseToken) };
}

/** Clients without lease tokens send zero. */
function tokenIn(leaseToken: WireUint64): number | undefined {
  return leaseToken === 0 ? undefined : Number(leaseToken);
}

/** The names of the Go server, which clients know. */
function nameOf(code: ErrorCode): string {
  if (errors[code].grpc === "PERMISSION_DENIED") return "PermissionDenied";
  return code === "internal" ? "Internal" : "InvalidArgument";
}

function ackOf({ taskId, leaseToken }: TaskEvent, answer: Answer<unknown>): worker.AbandonAck {
  return {
    taskId: echoOf(taskId),
    ok: answer.ok,
    errorMessage: answer.ok ? "" : sentenceOf(answer),
    errorCode: answer.ok ? "" : answer.code,
    leaseToken,
  };
}

function toSubmission(result: worker.Result): Answer<SubmitResultInput> {
  const { status, error } = result;
  if (status !== "COMPLETED" && status !== "FAILED") {
    const text = `invalid status (must be COMPLETED or FAILED): ${quoted(status)}`;
    return refusal("invalid_argument", text);
  }
  const json = textIn(result.resultJson)?.trim();
  const hasResult = json !== "" && json !== "null";
  if (json === undefined || (hasResult && !isJsonObject(json, result.resultJson))) {
    return refusal("invalid_argument", "invalid result_json");
  }
  return {
    ok: true,
    value: {
      id: result.taskId as TaskId,
      leaseToken: tokenIn(result.leaseToken),
      workerId: "",
      status,
      // Many workers complete tasks without a result.
      resultJson: hasResult ? json : status === "COMPLETED" ? "{}" : undefined,
      error,
      stack: result.stack,
      used: result.used?.count,
      artifacts: result.artifacts.length === 0 ? noArtifacts : result.artifacts.map(toArtifact),
    },
  };
}

function toArtifact({ name, url, content, contentType }: worker.Artifact): ArtifactInput {
  return { name, url, contentBase64: Buffer.from(content).toString("base64"), contentType };
}

const noArtifacts: SubmitResultInput["artifacts"] = [];

/** Truncated after quoting, because an escape is up to six characters long. */
function quoted(text: string): string {
  const whole = JSON.stringify(text.slice(0, shownCharsMax));
  return whole.length <= shownCharsMax + 2 ? whole : `${whole.slice(0, shownCharsMax + 1)}"`;
}

function isJsonObject(text: string, bytes: WireBytes): boolean {
  return text.startsWith("{") && (isPlainJson(bytes) || isJson(text));
}
