/**
 * The results that one producer stream waits for. Results are read from the store when they can be sent, a few
 * at a time, so that a stream needs the same memory for one result as for thousands, and a producer that reads
 * is never disconnected because of the size of its results.
 *
 *   waiting   ends when the task has ended or the time is up
 *   ready     waits for a read; awaits of the same task share the read
 *   answered  ends with the reply, which is not sent while the producer does not read
 */
import { producer } from "@codeq/protocol/wire";
import type { TaskId } from "@codeq/queue";
import { endOfWait } from "../../../core/abort-groups.ts";
import type { Identity } from "../../../edge/access/identity.ts";
import type { Caller, Dispatch } from "../../../edge/dispatch.ts";
import {
  echoOf,
  itemsPerTurnMax,
  nextTurn,
  type StreamCall,
} from "../../../edge/grpc/stream-call.ts";
import { type Answer, type Refusal, refusal, sentenceOf } from "../../../edge/operation.ts";
import { awaitEnd, type EndedTask, getResult, readEnd, type Waited } from "../read-task.ts";

/** Results that one stream may wait for. */
const awaitsMax = 16_384;
/** Results of one stream that are in memory at the same time. */
const readsMax = 4;

const tooMany = refusal("overloaded", `more than ${awaitsMax} results are being waited for`);

/** Awaits of the same task that are ready. */
interface Ready {
  readonly taskId: string;
  readonly waited: Waited;
  /** The start of each await. */
  readonly startedMs: number[];
}

export class AwaitedResults {
  readonly #dispatch: Dispatch;
  readonly #streamCall: StreamCall<producer.ServerEvent>;
  readonly #call: Caller;
  readonly #until: AbortController = new AbortController();
  readonly #ready: Map<string, Ready> = new Map();
  #size = 0;
  #reads = 0;
  #isScheduled = false;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(
    dispatch: Dispatch,
    streamCall: StreamCall<producer.ServerEvent>,
    identity: Identity,
  ) {
    this.#dispatch = dispatch;
    this.#streamCall = streamCall;
    this.#call = { identity, signal: this.#until.signal, from: streamCall.from };
  }

  async wait({ taskId, waitSeconds }: producer.AwaitResult): Promise<void> {
    const startedMs = this.#dispatch.server.clock.monotonicMs();
    const refused = this.#size < awaitsMax ? this.#refusal() : tooMany;
    if (refused !== undefined) {
      this.#answer(taskId, refused, startedMs);
      return;
    }
    this.#size += 1;
    try {
      const input = { id: taskId as TaskId, waitSeconds };
      const waited = await awaitEnd(this.#dispatch.server, this.#call, input);
      this.#add(taskId, waited, startedMs);
    } catch (error) {
      this.#size -= 1;
      this.#answer(taskId, this.#dispatch.asRefusal(getResult, error), startedMs);
    }
  }

  /** Drops all awaits: the producer asks again on its next stream. */
  end(): void {
    this.#until.abort(endOfWait);
    this.#ready.clear();
    this.slowed(false);
  }

  slowed(isSlow: boolean): void {
    if (isSlow) {
      this.#room ??= Promise.withResolvers();
      return;
    }
    this.#room?.resolve();
    this.#room = undefined;
  }

  #refusal(): Refusal | undefined {
    const refused = this.#dispatch.enter(getResult, this.#call);
    if (refused !== undefined) return refused;
    const admitted = this.#dispatch.admit(getResult, this.#call.identity);
    return admitted.ok ? undefined : admitted;
  }

  #add(taskId: string, waited: Waited, startedMs: number): void {
    if (this.#until.signal.aborted) return;
    const key = `${waited} ${taskId}`;
    const ready = this.#ready.get(key);
    if (ready === undefined) this.#ready.set(key, { taskId, waited, startedMs: [startedMs] });
    else ready.startedMs.push(startedMs);
    if (this.#isScheduled || this.#reads >= readsMax) return;
    this.#isScheduled = true;
    // Deferred, so that awaits of one task that end in the same turn share its read.
    setImmediate(() => {
      this.#isScheduled = false;
      for (let left = this.#ready.size; left > 0 && this.#reads < readsMax; left -= 1) {
        this.#readAndSend().catch((error: unknown) => this.#streamCall.fail(error));
      }
    });
  }

  /** Runs until no await is ready. */
  async #readAndSend(): Promise<void> {
    this.#reads += 1;
    let answered = 0;
    for (;;) {
      await this.#untilRoom();
      const next = this.#next();
      if (next === undefined) break;
      const { taskId, startedMs } = next;
      const answer = await this.#read(next);
      for (const each of startedMs) {
        await this.#untilRoom();
        if (this.#until.signal.aborted) break;
        this.#size -= 1;
        this.#answer(taskId, answer, each);
        answered += 1;
        if (answered % itemsPerTurnMax === 0) await nextTurn();
      }
    }
    this.#reads -= 1;
  }

  async #untilRoom(): Promise<void> {
    while (this.#room !== undefined) await this.#room.promise;
  }

  #next(): Ready | undefined {
    for (const [key, ready] of this.#ready) {
      this.#ready.delete(key);
      return ready;
    }
    return undefined;
  }

  async #read({ taskId, waited }: Ready): Promise<Answer<EndedTask>> {
    try {
      return await readEnd(this.#dispatch.server, this.#call, { id: taskId as TaskId, waited });
    } catch (error) {
      return this.#dispatch.asRefusal(getResult, error);
    }
  }

  #answer(taskId: string, answer: Answer<EndedTask>, startedMs: number): void {
    this.#dispatch.noteAnswer(getResult, answer, startedMs);
    const value = answer.ok ? resultOf(taskId, answer.value) : noResult(taskId, answer);
    this.#streamCall.send({ case: "taskResult", value });
  }
}

function resultOf(taskId: string, { task, result }: EndedTask): producer.TaskResult {
  const { status, resultJson, error } = result;
  // `task.attempts` counts failed attempts only; the attempt with the result counts too.
  const attempts = task.attempts + (task.place.in === "done" ? 1 : 0);
  const ok = { ok: true, errorMessage: "", errorCode: "" };
  const artifacts = result.artifacts.map(
    ({ name, url, bytes = 0, sha256 = "", contentType = "" }): producer.Artifact => {
      return { name, url, bytes, sha256, contentType };
    },
  );
  return { taskId, ...ok, status, resultJson, error, attempts, artifacts };
}

function noResult(taskId: string, refused: Refusal): producer.TaskResult {
  const errorMessage = sentenceOf(refused);
  const { code: errorCode } = refused;
  return { ...producer.newTaskResult(), taskId: echoOf(taskId), errorMessage, errorCode };
}
