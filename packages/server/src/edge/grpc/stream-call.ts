/**
 * What producer and worker streams have in common.
 *
 *   greeting   the first event must be a Hello with a valid token; ends with it, or with the time limit
 *   open       events are processed in order of arrival; ends with half-close, token or connection
 *   draining   no more events are accepted; ends when all accepted events are answered
 *   closed     pending answers are dropped
 *
 * Reading stops while too many events are unanswered, so the memory of a call is bounded whatever the peer
 * does.
 */
import { type ErrorCode, errors, limits } from "@codeq/protocol";
import {
  decodeMessage,
  textOf,
  type WireBytes,
  WireError,
  type WireRead,
  type WireUint64,
  type WireWrite,
} from "@codeq/protocol/wire";
import type { TenantId } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { TenantShares } from "../../core/tenant-shares.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { streamEnds, streamPauses, streamRefusals } from "../../telemetry/metrics.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import type { AccessKind, Authenticator } from "../access/authenticator.ts";
import type { Identity } from "../access/identity.ts";
import type { Origin } from "../audit/audit-record.ts";
import type { ConnectedWorkers } from "../connected-workers.ts";
import { addressOf } from "../connections.ts";
import type { Dispatch } from "../dispatch.ts";
import type { InFlight, Input } from "../in-flight.ts";
import { refusal } from "../operation.ts";
import type { CloseReason, GrpcStream } from "./grpc-stream.ts";
import type { GrpcStatus } from "./status.ts";

export interface StreamCallParts {
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly workers: ConnectedWorkers;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tracing: Tracing;
  readonly slots: StreamSlots;
  readonly inFlight: InFlight;
  readonly claimBatchMax: number;
  /** Different after every start of the server. */
  readonly instance: string;
}

export interface Greeting {
  readonly token: string;
  /** The name that the caller chose; empty for its subject. */
  readonly name: string;
}

/** Why an event was refused. */
export interface EventError {
  /** The name in the Go server, which clients know. */
  readonly code: string;
  readonly message: string;
  /** The code in the error table. */
  readonly errorCode: ErrorCode;
}

/** The differences between producer and worker streams. */
export interface Protocol<Event, Reply> {
  readonly access: AccessKind;
  /** Counts of all streams of this kind. */
  readonly counts: StreamCounts;
  readonly read: WireRead<Event>;
  readonly write: WireWrite<Reply>;
  /** The answer to a Hello without a token. */
  readonly missingToken: string;
  /** Undefined when the event is not a Hello. */
  readonly greetingOf: (event: Event) => Greeting | undefined;
  readonly errorReply: (error: EventError) => Reply;
  /** Answers the Hello and returns the handler of the events after it. */
  readonly begin: (
    streamCall: StreamCall<Reply>,
    identity: Identity,
    name: string,
  ) => StreamHandler<Event>;
}

export interface StreamHandler<Event> {
  /**
   * Handles an event of so many bytes; everything that depends on the order of events is decided before this
   * returns. A later answer is a promise, or calls `answered` of the call.
   */
  take(event: Event, bytes: number): MaybePromise<void>;
  /** The peer has sent its last event, or the server is about to stop. */
  finish(): void;
  /** The stream is closed; nothing can be sent. */
  closed(): void;
  /** The peer has stopped or resumed reading. */
  slowed(isSlow: boolean): void;
}

const clientPattern = /^[\x20-\x7e]{1,200}$/;
const greetingMsMax = 10_000;
/** How long a stream may outlive its token. */
const expiryGraceMs = 30_000;
const unansweredEventsMax = 4096;
const unansweredBytesMax = 8 * 1024 * 1024;
/** The same limit while the input of all callers, or of the tenant, takes much memory. */
const unansweredBytesMaxCrowded = 64 * 1024;

type Sending<Reply> = Pick<Protocol<never, Reply>, "write" | "errorReply" | "counts">;

export class StreamCall<Reply> {
  readonly slot: StreamSlot;
  readonly #stream: GrpcStream;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #inFlight: InFlight;
  readonly #protocol: Sending<Reply>;
  /** The memory of events that are not answered yet; undefined until the tenant is known. */
  #input: Input | undefined;
  #onSlow: () => void = () => {};
  #onClosed: () => void = () => {};
  #unansweredEvents = 0;
  #unansweredBytes = 0;
  /** Batches that are decided over several turns. */
  #batchesUnderWay = 0;
  #isSlow = false;
  #isPaused = false;
  #isDraining = false;
  #isClosed = false;
  #cancelExpiry: () => void = () => {};
  #stopWatching: () => void = () => {};

  constructor(stream: GrpcStream, parts: StreamCallParts, protocol: Sending<Reply>) {
    this.slot = new StreamSlot(parts.slots);
    this.#stream = stream;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#inFlight = parts.inFlight;
    this.#protocol = protocol;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The address and request id of the stream. */
  get from(): Origin {
    const { peer, metadata } = this.#stream;
    return { address: addressOf(peer), requestId: metadata.requestId ?? "" };
  }

  /** The user agent of the client; undefined when it is missing or has unusual characters. */
  get client(): string | undefined {
    const name = this.#stream.metadata.userAgent;
    return name !== undefined && clientPattern.test(name) ? name : undefined;
  }

  /** Sent bytes that are still in this process. */
  get pendingBytes(): number {
    return this.#stream.pendingBytes;
  }

  whenSlow(run: () => void): void {
    this.#onSlow = run;
  }

  /** The peer reads again. */
  resumed(): void {
    this.#isSlow = false;
  }

  /** Called immediately when the call ends, before its stream is closed. */
  whenClosed(run: () => void): void {
    this.#onClosed = run;
  }

  /** `unsent` is called when the reply was certainly not sent. */
  send(reply: Reply, unsent?: () => void): void {
    if (this.#isClosed) {
      unsent?.();
      return;
    }
    this.#protocol.counts.messagesOut += 1;
    if (this.#stream.sendMessage(this.#protocol.write, reply, unsent) || this.#isClosed) return;
    if (!this.#isSlow) this.#protocol.counts.pauses.slow_reader += 1;
    this.#isSlow = true;
    this.#onSlow();
  }

  /** Refuses an event; the stream stays open. */
  refuse(error: EventError): void {
    this.send(this.#protocol.errorReply(error));
  }

  /** Ends the stream instead of answering its Hello. */
  reject(reason: StreamRefusal, status: GrpcStatus, message: string): void {
    if (this.#isClosed) return;
    this.#protocol.counts.refused[reason] += 1;
    this.end(status, message);
  }

  end(status: GrpcStatus, message = ""): void {
    if (this.#isClosed) return;
    this.close();
    this.#stream.end(status, message);
  }

  /** Counts the input of this tenant from now on. */
  countFor(tenantId: TenantId): void {
    // Whole events are answered soon and never cut off, but they slow the stream down.
    this.#input = this.#inFlight.open(tenantId, () => {});
    this.#input.finish();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#input?.hold(0);
    this.#cancelExpiry();
    this.#stopWatching();
    this.#onClosed();
  }

  /** Counts an event of so many bytes; `answered` must be called once for it. */
  unanswered(bytes: number): void {
    this.#unansweredEvents += 1;
    this.#unansweredBytes += bytes;
    this.#pace();
  }

  answered(bytes: number): void {
    this.#unansweredEvents -= 1;
    this.#unansweredBytes -= bytes;
    this.#pace();
    this.#endWhenDrained();
  }

  /** Counts an event that is answered when the promise settles. */
  track(answer: Promise<void>, bytes: number): void {
    this.unanswered(bytes);
    answer.then(
      () => this.answered(bytes),
      (error: unknown) => {
        this.fail(error);
        this.answered(bytes);
      },
    );
  }

  /** A bug: logs the error and ends this stream. */
  fail(error: unknown): void {
    const { path, peer } = this.#stream;
    this.#logger.error("gRPC stream failed", { path, peer, error });
    this.end("INTERNAL", errors.internal.text);
  }

  /** Decides about the items of a large batch in order, over several turns. Later events wait. */
  async inTurns<Item>(
    items: readonly Item[],
    decide: (item: Item, at: number) => void,
  ): Promise<void> {
    this.#batchesUnderWay += 1;
    this.#pace();
    for (const [at, item] of items.entries()) {
      if (at > 0 && at % itemsPerTurnMax === 0) await nextTurn();
      decide(item, at);
    }
    this.#batchesUnderWay -= 1;
    this.#pace();
  }

  /** Ends the stream when all accepted events are answered. */
  drain(): void {
    this.#isDraining = true;
    this.#endWhenDrained();
  }

  endAfter(expiresMs: number | undefined): void {
    if (expiresMs === undefined) return;
    const leftMs = expiresMs + expiryGraceMs - this.#clock.nowMs();
    this.#cancelExpiry = this.#clock.after(leftMs, () => {
      // Timers have a maximum delay, and the wall clock may have been set back.
      if (this.#clock.nowMs() < expiresMs + expiryGraceMs) this.endAfter(expiresMs);
      else this.end("UNAUTHENTICATED", errors.token_expired.text);
    });
  }

  /** A revoked token ends its stream immediately; pending answers are dropped. */
  endWhenRevoked(authenticator: Authenticator, identity: Identity): void {
    if (this.#isClosed) return;
    this.#stopWatching = authenticator.watch(identity, () =>
      this.end("UNAUTHENTICATED", errors.token_revoked.text),
    );
  }

  #pace(): void {
    if (this.#isClosed) return;
    this.#input?.hold(this.#unansweredBytes);
    const tooMuch =
      this.#unansweredEvents >= unansweredEventsMax ||
      this.#isTooMuch(this.#unansweredBytes) ||
      this.#batchesUnderWay > 0;
    if (tooMuch === this.#isPaused) return;
    this.#isPaused = tooMuch;
    if (!tooMuch) {
      this.#stream.resume();
      return;
    }
    this.#protocol.counts.pauses.unanswered += 1;
    this.#stream.pause();
  }

  #isTooMuch(bytes: number): boolean {
    if (bytes < unansweredBytesMaxCrowded) return false;
    const tenantId = this.#input?.tenantId;
    const isCrowded = tenantId !== undefined && this.#inFlight.isCrowded(tenantId);
    return isCrowded || bytes >= unansweredBytesMax;
  }

  #endWhenDrained(): void {
    if (this.#isDraining && this.#unansweredEvents === 0) this.end("OK");
  }
}

/** A Hello that is not the first event. */
export const secondHello: EventError = {
  code: "FailedPrecondition",
  message: "already-authenticated",
  errorCode: "invalid_argument",
};

export const unknownEvent: EventError = {
  code: "InvalidArgument",
  message: "unknown-event",
  errorCode: "invalid_argument",
};

/** Serves one stream from its first message to its end. */
export function serveStream<Event, Reply>(
  stream: GrpcStream,
  parts: StreamCallParts,
  protocol: Protocol<Event, Reply>,
): void {
  const { counts } = protocol;
  const streamCall = new StreamCall<Reply>(stream, parts, protocol);
  let handler: StreamHandler<Event> | undefined;
  let isGreeted = false;
  let isFinishing = false;

  const cancelTimeout = parts.clock.after(greetingMsMax, () =>
    streamCall.reject("no_hello", "DEADLINE_EXCEEDED", "no Hello in time"),
  );
  const finish = (): void => {
    isFinishing = true;
    if (handler !== undefined) handler.finish();
    else if (!isGreeted) streamCall.end("OK");
  };
  const greet = async (hello: Event): Promise<void> => {
    isGreeted = true;
    cancelTimeout();
    // Events after the Hello wait until its token has been checked.
    stream.pause();
    const accepted = await authenticate(streamCall, parts, protocol, hello);
    if (accepted === undefined || streamCall.isClosed) return;
    const { tenantId } = accepted.identity;
    stream.holdConnection(parts.inFlight.open(tenantId, stream.cutForRoom));
    streamCall.countFor(tenantId);
    const begun = protocol.begin(streamCall, accepted.identity, accepted.name);
    handler = begun;
    streamCall.whenClosed(() => begun.closed());
    streamCall.endAfter(accepted.identity.expiresMs);
    streamCall.endWhenRevoked(parts.authenticator, accepted.identity);
    streamCall.whenSlow(() => begun.slowed(true));
    stream.onDrain(() => {
      streamCall.resumed();
      begun.slowed(false);
    });
    stream.resume();
    if (isFinishing) begun.finish();
  };
  counts.open += 1;
  const startedMs = parts.clock.monotonicMs();
  stream.onMessage((bytes) => {
    if (streamCall.isClosed) return;
    counts.messagesIn += 1;
    const event = decodeMessage(protocol.read, bytes);
    if (handler === undefined) {
      greet(event).catch((error: unknown) => streamCall.fail(error));
      return;
    }
    try {
      const answer = handler.take(event, bytes.length);
      if (answer instanceof Promise) streamCall.track(answer, bytes.length);
    } catch (error) {
      streamCall.fail(error);
    }
  });
  stream.onHalfClose(finish);
  stream.onGoingAway(finish);
  stream.onClosed((reason) => {
    counts.open -= 1;
    counts.closed[reason] += 1;
    parts.tracing.streamed({
      path: stream.path,
      traceParent: stream.metadata.traceParent,
      traceState: stream.metadata.traceState,
      ended: reason,
      ms: parts.clock.monotonicMs() - startedMs,
    });
    streamCall.slot.giveBack();
    cancelTimeout();
    streamCall.close();
  });
  if (!streamCall.slot.take()) rejectFull(streamCall, "too many streams are open");
}

function rejectFull<Reply>(streamCall: StreamCall<Reply>, text: string): void {
  streamCall.reject("too_many", "RESOURCE_EXHAUSTED", text);
}

async function authenticate<Event, Reply>(
  streamCall: StreamCall<Reply>,
  parts: StreamCallParts,
  protocol: Protocol<Event, Reply>,
  hello: Event,
): Promise<{ identity: Identity; name: string } | undefined> {
  const greeting = protocol.greetingOf(hello);
  if (greeting === undefined) {
    streamCall.reject("no_hello", "FAILED_PRECONDITION", "first event must be Hello");
    return undefined;
  }
  const action = `${protocol.access}_stream`;
  const { from } = streamCall;
  const token = greeting.token.trim();
  if (token === "") {
    parts.dispatch.noteRefusal(action, refusal("missing_authorization"), { from });
    streamCall.reject("bad_token", "UNAUTHENTICATED", protocol.missingToken);
    return undefined;
  }
  const outcome = await parts.authenticator.authenticate(protocol.access, token);
  if (!outcome.ok) {
    parts.dispatch.noteRefusal(action, refusal(outcome.code), { from });
    endRefused(streamCall, outcome.code);
    return undefined;
  }
  if (!streamCall.slot.takeFor(outcome.value.tenantId)) {
    rejectFull(streamCall, "too many streams of this tenant are open");
    return undefined;
  }
  const name = greeting.name.trim();
  if (name.length > limits.workerIdCharsMax) {
    const text = `worker_id is longer than ${limits.workerIdCharsMax} characters`;
    streamCall.reject("bad_worker_id", "INVALID_ARGUMENT", text);
    return undefined;
  }
  return { identity: outcome.value, name };
}

function endRefused<Reply>(streamCall: StreamCall<Reply>, code: ErrorCode): void {
  const { text, grpc } = errors[code];
  streamCall.reject("bad_token", grpc, grpc === "UNAUTHENTICATED" ? `auth failed: ${text}` : text);
}

/** Larger batches are processed over several turns of the event loop, so that they do not block the server. */
export const itemsPerTurnMax = 256;

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** No valid task id is longer, so the beginning is enough for the client to see what is wrong. */
const echoedIdCharsMax = 256;
/** Clients refuse more than 4 MiB; the rest is for the message around the acknowledgements. */
const batchBytesMax = 4 * 1024 * 1024 - 1024;
/** More than an acknowledgement needs besides its texts. */
const fieldsBytes = 32;
/** A batch of this size is far below the limit whatever its content, so it is not measured. */
const unmeasuredMax = 1024;

interface Ack {
  readonly taskId: string;
  readonly errorMessage: string;
}

/** The id of a task as the acknowledgement repeats it. */
export function echoOf(taskId: string): string {
  return taskId.length <= echoedIdCharsMax ? taskId : taskId.slice(0, echoedIdCharsMax);
}

/** Splits acknowledgements into messages that no client refuses; nearly always one message. */
export function inMessages<A extends Ack>(acks: A[]): A[][] {
  if (acks.length <= unmeasuredMax) return [acks];
  const messages: A[][] = [[]];
  let bytes = 0;
  for (const ack of acks) {
    const size = fieldsBytes + Buffer.byteLength(ack.taskId) + Buffer.byteLength(ack.errorMessage);
    bytes += size;
    if (bytes > batchBytesMax) {
      messages.push([]);
      bytes = size;
    }
    messages.at(-1)?.push(ack);
  }
  return messages;
}

/** Milliseconds win over seconds, which older clients send. */
export function delaySecondsIn(given: {
  readonly delaySeconds: number;
  readonly delayMs: WireUint64;
}): number {
  return Number(given.delayMs) > 0 ? Number(given.delayMs) / 1000 : given.delaySeconds;
}

/** The text of a field that the caller chose; undefined when the bytes are not UTF-8. */
export function textIn(bytes: WireBytes): string | undefined {
  try {
    return textOf(bytes);
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}

type StreamRefusal = (typeof streamRefusals)[number];
type StreamPause = (typeof streamPauses)[number];

/**
 * Counts of all streams of one kind since the start. Plain numbers, because two of them change with every
 * message; a scrape of the metrics reads them.
 */
export class StreamCounts {
  open = 0;
  messagesIn = 0;
  messagesOut = 0;
  pendingReadys = 0;
  readonly closed: Record<CloseReason, number> = zeros(streamEnds);
  readonly refused: Record<StreamRefusal, number> = zeros(streamRefusals);
  readonly pauses: Record<StreamPause, number> = zeros(streamPauses);
}

function zeros<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
}

/**
 * Limits the number of open streams: a maximum for the server, of which one tenant may have at most half, so
 * that it cannot lock out the others.
 */
export class StreamSlots {
  readonly ofTenants: TenantShares;
  readonly #max: number;
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
    this.ofTenants = new TenantShares(max);
  }

  get isFull(): boolean {
    return this.#taken >= this.#max;
  }

  add(change: 1 | -1): void {
    this.#taken += change;
  }
}

/** The slot of one stream: taken when it opens, and for its tenant once the tenant is known. */
class StreamSlot {
  readonly #slots: StreamSlots;
  #isTaken = false;
  #tenantId: TenantId | undefined;

  constructor(slots: StreamSlots) {
    this.#slots = slots;
  }

  /** False when no slot is left. */
  take(): boolean {
    if (this.#slots.isFull) return false;
    this.#isTaken = true;
    this.#slots.add(1);
    return true;
  }

  /** False when the tenant has used all its slots. */
  takeFor(tenantId: TenantId): boolean {
    if (!this.#slots.ofTenants.hasRoomFor(tenantId)) return false;
    this.#tenantId = tenantId;
    this.#slots.ofTenants.add(tenantId, 1);
    return true;
  }

  giveBack(): void {
    if (this.#isTaken) this.#slots.add(-1);
    if (this.#tenantId !== undefined) this.#slots.ofTenants.add(this.#tenantId, -1);
  }
}
