/**
 * The worker stream: a Ready asks for tasks and is held until there are some; results and the like
 * are acknowledged when they are durable. Tasks that were claimed for a stream which is gone before
 * they have left the process go back at once. A task that is too large for a message does not: it
 * would end the next stream, too, and its lease makes that happen less often.
 */
import { type ErrorCode, errors } from "@codeq/protocol";
import { type WireUint64, worker } from "@codeq/protocol/wire";
import type { TaskId } from "@codeq/queue";
import type { Identity } from "../../access/identity.ts";
import { workerIdOf } from "../../access/worker-id.ts";
import { type MaybePromise, whenKnown } from "../../maybe-promise.ts";
import { type Deliver, problemOfCommands } from "../../operations/claim-tasks.ts";
import type { Caller } from "../../operations/dispatch.ts";
import { operations } from "../../operations/index.ts";
import {
  type Admission,
  type Answer,
  type Operation,
  type Refusal,
  refusal,
  sentenceOf,
} from "../../operations/operation.ts";
import type { SubmitResultInput } from "../../operations/submit-result.ts";
import { builtCharsMax, isJson } from "../json-scan.ts";
import { echoOf, inMessages } from "./acks.ts";
import { type HeldReady, HeldReadys, type ServeOutcome } from "./held-readys.ts";
import {
  type Conversation,
  type Protocol,
  type Session,
  type SessionParts,
  secondHello,
  unknownEvent,
} from "./session.ts";
import { StreamCounts } from "./stream-counts.ts";
import { assignments } from "./task-messages.ts";
import { textIn } from "./text-in.ts";

type Event = worker.WorkerEvent;
type Reply = worker.ServerEvent;

/**
 * A claim is handed back when the worker has more than this unread. What several Readys claimed in
 * one turn comes together; with this and the most that one claim may have it stays below what cuts
 * off a call.
 */
const unreadBytesMax = 4 * 1024 * 1024;
const shownCharsMax = 100;

export function workerProtocol(parts: SessionParts): Protocol<Event, Reply> {
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
    begin: (session, identity, name) => {
      const workerId = name === "" ? identity.subject : name;
      const { tenantId } = identity;
      const { instance } = parts;
      session.send({ case: "helloAck", value: { workerId, tenantId, instance } });
      const owner = { ...identity, workerId: workerIdOf(identity.subject, name) };
      return new WorkerConversation({ ...parts, counts }, session, owner, workerId);
    },
  };
}

interface WorkerParts extends SessionParts {
  readonly counts: StreamCounts;
}

class WorkerConversation implements Conversation<Event> {
  readonly #parts: WorkerParts;
  readonly #session: Session<Reply>;
  readonly #call: Caller;
  readonly #name: string;
  readonly #readys: HeldReadys;
  readonly #disconnect: () => void;

  constructor(parts: WorkerParts, session: Session<Reply>, identity: Identity, name: string) {
    this.#parts = parts;
    this.#session = session;
    this.#call = { identity, signal: undefined, from: session.from };
    this.#name = name;
    this.#disconnect = parts.workers.add(identity);
    this.#readys = new HeldReadys(parts, {
      admit: () => this.#admitReady(),
      serve: (ready, admission, signal) => this.#serve(ready, { admission, signal }),
    });
  }

  take(event: Event): MaybePromise<void> {
    switch (event.case) {
      case "ready":
        this.#ready(event.value);
        return undefined;
      case "result":
        return this.#mayDo(operations.submitResult) ? this.#result(event.value) : undefined;
      case "resultBatch":
        return this.#mayDo(operations.submitResult)
          ? this.#results(event.value.results)
          : undefined;
      case "nack":
        return this.#mayDo(operations.nackTask) ? this.#nack(event.value) : undefined;
      case "heartbeat":
        return this.#mayDo(operations.extendLease) ? this.#heartbeat(event.value) : undefined;
      case "abandon":
        return this.#mayDo(operations.abandonTask) ? this.#abandon(event.value) : undefined;
      case "hello":
        this.#session.refuse(secondHello);
        return undefined;
      case undefined:
        this.#session.refuse(unknownEvent);
        return undefined;
    }
  }

  /** A worker that sends nothing more could not answer for a task it gets now. */
  finish(): void {
    this.#readys.close();
    this.#session.drain();
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
    const problem = this.#parts.dispatch.problemOf(operation, this.#call);
    if (problem !== undefined) this.#refuse(problem);
    return problem === undefined;
  }

  #ready({ commands, leaseSeconds, count }: worker.Ready): void {
    if (!this.#mayDo(operations.claimTasks)) return;
    const wanted = commands.map((command) => command.trim()).filter((command) => command !== "");
    if (commands.length > 0 && wanted.length === 0) {
      this.#refuse(refusal("event_type_not_allowed"));
      return;
    }
    // Before it is held, so that what is held has a size.
    const problem = problemOfCommands(wanted);
    if (problem !== undefined) {
      this.#refuse(problem);
      return;
    }
    if (!this.#readys.hold({ commands: wanted, leaseSeconds, count: Math.max(count, 1) })) {
      const message = "too many outstanding Readys";
      this.#session.refuse({ code: "ResourceExhausted", message, errorCode: "overloaded" });
    }
  }

  /** A Ready that comes too early is kept waiting: nobody could answer its slot again. */
  #admitReady(): Admission | number {
    const admitted = this.#parts.dispatch.admit(operations.claimTasks, this.#call.identity);
    return admitted.ok ? admitted.value : (admitted.retryAfterMs ?? 0);
  }

  /** Asks for tasks until there are some. */
  #serve(ready: HeldReady, call: Omit<Caller, "identity">): MaybePromise<ServeOutcome> {
    const count = Math.min(ready.count, this.#parts.claimBatchMax);
    const asBatch = ready.count > 1;
    const deliver: Deliver = (claimed, giveBack) => {
      // When the worker cannot take them.
      if (this.#readys.isClosed || this.#session.pendingBytes > unreadBytesMax) return false;
      const how = { workerId: this.#name, asBatch };
      for (const { message, tasks } of assignments(claimed, how)) {
        this.#session.send(message, () => giveBack(tasks));
      }
      return true;
    };
    const input = { ...ready, count, waitSeconds: Number.POSITIVE_INFINITY, deliver };
    return whenKnown(this.#run(operations.claimTasks, input, call), (answer) => {
      if (answer.ok) return answer.value.length > 0 ? "served" : "refused";
      if (answer.code === "overloaded") return "crowded";
      if (errors[answer.code].retryable) return "refused";
      this.#refuse(answer);
      return "served";
    });
  }

  #refuse({ code, text }: Refusal): void {
    this.#session.refuse({ code: nameOf(code), message: text, errorCode: code });
  }

  #result(result: worker.Result): MaybePromise<void> {
    return whenKnown(this.#submit(result), (value) =>
      this.#session.send({ case: "resultAck", value }),
    );
  }

  async #results(results: readonly worker.Result[]): Promise<void> {
    if (results.length === 0) return;
    const admitted = this.#parts.dispatch.admit(operations.submitResults, this.#call.identity);
    const acks = admitted.ok
      ? await this.#session.inTurns(results, (result) => this.#submit(result, admitted.value))
      : results.map(({ taskId }) => ackOf(taskId, admitted));
    for (const part of inMessages(acks)) {
      this.#session.send({ case: "resultAckBatch", value: { acks: part } });
    }
  }

  #submit(result: worker.Result, admission?: Admission): MaybePromise<worker.ResultAck> {
    const { taskId } = result;
    const input = toSubmission(result);
    if (!input.ok) return ackOf(taskId, input);
    const call = { signal: undefined, admission };
    return whenKnown(this.#run(operations.submitResult, input.value, call), (answer) =>
      ackOf(taskId, answer),
    );
  }

  async #nack({ taskId, delaySeconds, reason, leaseToken }: worker.Nack): Promise<void> {
    const input = { ...owned(taskId, leaseToken), delaySeconds, reason };
    const answer = await this.#run(operations.nackTask, input);
    const appliedDelaySeconds = answer.ok ? answer.value.delaySeconds : 0;
    const dlq = answer.ok && answer.value.buried;
    const value = { ...ackOf(taskId, answer), appliedDelaySeconds, dlq };
    this.#session.send({ case: "nackAck", value });
  }

  async #heartbeat({ taskId, extendSeconds, leaseToken }: worker.Heartbeat): Promise<void> {
    const input = { ...owned(taskId, leaseToken), extendSeconds };
    const answer = await this.#run(operations.extendLease, input);
    this.#session.send({ case: "heartbeatAck", value: ackOf(taskId, answer) });
  }

  async #abandon({ taskId, leaseToken, interrupted }: worker.Abandon): Promise<void> {
    const input = { ...owned(taskId, leaseToken), interrupted };
    const answer = await this.#run(operations.abandonTask, input);
    this.#session.send({ case: "abandonAck", value: ackOf(taskId, answer) });
  }

  #run<Input, Output>(
    operation: Operation<Input, Output>,
    input: Input,
    { signal, admission }: Pick<Caller, "signal" | "admission"> = { signal: undefined },
  ): MaybePromise<Answer<Output>> {
    const { identity, from } = this.#call;
    return this.#parts.dispatch.run(operation, { identity, signal, from, admission }, input);
  }
}

function owned(
  taskId: string,
  leaseToken: WireUint64,
): { id: TaskId; leaseToken: number | undefined } {
  // Zero is what a client sends that does not know of tokens.
  return { id: taskId as TaskId, leaseToken: leaseToken === 0 ? undefined : Number(leaseToken) };
}

/** The names that the other server gives to codes. */
function nameOf(code: ErrorCode): string {
  if (errors[code].grpc === "PERMISSION_DENIED") return "PermissionDenied";
  return code === "internal" ? "Internal" : "InvalidArgument";
}

function ackOf(
  taskId: string,
  answer: Answer<unknown>,
): { taskId: string; ok: boolean; errorMessage: string; errorCode: string } {
  const id = echoOf(taskId);
  return answer.ok
    ? { taskId: id, ok: true, errorMessage: "", errorCode: "" }
    : { taskId: id, ok: false, errorMessage: sentenceOf(answer), errorCode: answer.code };
}

function toSubmission(result: worker.Result): Answer<SubmitResultInput> {
  const { status, error } = result;
  if (status !== "COMPLETED" && status !== "FAILED") {
    const text = `invalid status (must be COMPLETED or FAILED): ${quoted(status)}`;
    return refusal("invalid_argument", text);
  }
  const json = textIn(result.resultJson)?.trim();
  const hasResult = json !== "" && json !== "null";
  if (json === undefined || (hasResult && !isJsonObject(json))) {
    return refusal("invalid_argument", "invalid result_json");
  }
  const submission = { ...owned(result.taskId, result.leaseToken), status, error, artifacts: [] };
  // Completed without a result is the normal success of many workers.
  const resultJson = hasResult ? json : status === "COMPLETED" ? "{}" : undefined;
  return { ok: true, value: { ...submission, resultJson } };
}

/** Cut after it was quoted: what has to be escaped becomes six times as long. */
function quoted(text: string): string {
  const whole = JSON.stringify(text.slice(0, shownCharsMax));
  return whole.length <= shownCharsMax + 2 ? whole : `${whole.slice(0, shownCharsMax + 1)}"`;
}

function isJsonObject(text: string): boolean {
  if (!text.startsWith("{")) return false;
  if (text.length > builtCharsMax) return isJson(text);
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    // Not JSON at all.
    return false;
  }
}
