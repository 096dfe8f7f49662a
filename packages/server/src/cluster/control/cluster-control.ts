/**
 * The control store of a cluster: one log for all nodes. Each node reads its own copy and asks the leader of the
 * log to commit. A setting applies on every node as soon as the node has read it; nodes are notified at once. A
 * node that has not read the log for `doubtMs` tells its listeners, and API keys are refused there until it has.
 *
 * States: in doubt (at first; leaves when the log was read to its end, and listeners have loaded); current.
 */
import { type EngineState, FaultError, type LeaderName, type ReplicaStatus } from "@codeq/engine";
import type { Clock } from "../../core/clock.ts";
import type { ControlRecords } from "../../core/control/control-records.ts";
import {
  type ControlListener,
  type ControlStore,
  notify,
} from "../../core/control/control-store.ts";
import { decode, encode } from "../../core/store/codec.ts";
import type { RecordText, RecordWrite, Store } from "../../core/store/store.ts";
import { ClusterLink } from "../peers/cluster-link.ts";
import {
  type Caller,
  controlNumber,
  type Hosting,
  leaderGone,
  noLeader,
} from "../replicated-shard.ts";
import { type ControlAnswer, commitRequest, controlAnswer } from "./control-messages.ts";
import type { ControlReplica } from "./control-replica.ts";

export interface ClusterControlParts {
  readonly clock: Clock;
  readonly status: () => Pick<ReplicaStatus, "leader" | "epoch">;
  readonly dial: (leader: LeaderName, shard: number, caller: Caller) => Hosting | undefined;
}

/** A node that has not read the log for this long accepts no API keys. */
const doubtMs = 10_000;
const lookMs = 250;
/** How long a commit waits for a leader, and then for this node to read it. */
const waitMs = 5000;
const answerMsMax = 15_000;

/** No record has this key. */
const neverThere: RecordText = { key: "codeq/never", text: "" };

type LeaderAnswer = Exclude<ControlAnswer, { kind: "hello" }>;

interface Waiting {
  readonly resolve: (answer: LeaderAnswer) => void;
  readonly reject: (fault: FaultError) => void;
}

export class ClusterControl implements ControlStore, AsyncDisposable {
  readonly link: ClusterLink;
  readonly #clock: Clock;
  readonly #listeners: ControlListener[] = [];
  readonly #waiting: Map<number, Waiting> = new Map();
  /** Callbacks of calls that wait for a leader, or for a record. */
  readonly #watchers: Set<() => void> = new Set();
  #replica: ControlReplica | undefined;
  #number = 0;
  #isUp = false;
  #state: "in doubt" | "loading" | "current" = "in doubt";
  /** Records that were written while listeners load. */
  #meanwhile: RecordText[] = [];
  #isLoading = false;
  #wasInCharge = false;
  #isStopped = false;
  #cancelLook: () => void = () => {};

  constructor(parts: ClusterControlParts) {
    this.#clock = parts.clock;
    this.link = new ClusterLink({ ...parts, shard: controlNumber });
    this.link.onMessage = (message) => this.#hear(decode(controlAnswer, message));
    this.link.onDown = (fault) => this.#down(fault);
    this.#planLook();
  }

  get state(): EngineState {
    return this.#isUp ? "open" : "closed";
  }

  get isInCharge(): boolean {
    return this.#replica?.isLeading === true && this.#state === "current";
  }

  get records(): ControlRecords {
    if (this.#replica === undefined) throw noLeader(controlNumber);
    return this.#replica.records;
  }

  /** The store that writes the log, while this node leads. */
  get store(): Store | undefined {
    return this.#replica?.store;
  }

  assertWritable(): void {
    if (!this.#isUp) throw noLeader(controlNumber);
  }

  assertDeletable(): void {
    this.assertWritable();
  }

  async commit(
    writes: readonly RecordWrite[],
    expected: readonly RecordText[] = [],
  ): Promise<boolean> {
    await this.#until(
      () => this.#isUp,
      () => noLeader(controlNumber),
    );
    const answer = await this.#ask(writes, expected);
    if (answer.kind === "refused") throw new FaultError(answer.code, answer.why);
    const { kind, index } = answer;
    await this.#until(
      () => (this.#replica?.notifiedIndex ?? 0) >= index && this.#state === "current",
      () => new FaultError("unknown", "it was written, but this node cannot read it yet"),
    );
    return kind === "kept";
  }

  async refresh(): Promise<void> {
    // The leader refuses a commit whose expectation does not hold, and says how far its log is.
    await this.commit([], [neverThere]);
  }

  #ask(writes: readonly RecordWrite[], expected: readonly RecordText[]): Promise<LeaderAnswer> {
    this.#number += 1;
    const number = this.#number;
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(answerMsMax, () => {
        this.#waiting.delete(number);
        reject(leaderGone(controlNumber));
      });
      this.#waiting.set(number, {
        resolve: (answer) => {
          cancel();
          resolve(answer);
        },
        reject: (fault) => {
          cancel();
          reject(fault);
        },
      });
      this.link.send(encode(commitRequest, { number, writes, expected }));
    });
  }

  async listen(listener: ControlListener): Promise<void> {
    this.#listeners.push(listener);
    // The listener loads with the others when the log has been read.
    if (this.#state === "current") this.#state = "in doubt";
  }

  /** Sets the copy of this node; undefined while it gets another one. */
  use(replica: ControlReplica | undefined): void {
    this.#replica = replica;
    this.#doubt();
  }

  /** Called when the role of this node, or the leader, may have changed. */
  look(): void {
    this.link.look();
    this.#look();
  }

  /** Called by the replica. */
  written(writes: readonly RecordText[]): void {
    if (this.#state === "current") notify(this.#listeners, writes);
    else if (this.#state === "loading") this.#meanwhile.push(...writes);
    this.#look();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    this.#cancelLook();
    await this.link.stop();
    this.#down(new FaultError("closed", "this node ends"));
  }

  #planLook(): void {
    this.#cancelLook = this.#clock.after(lookMs, () => {
      this.#look();
      if (!this.#isStopped) this.#planLook();
    });
  }

  /** Updates whether this node is current, and whether it is in charge. */
  #look(): void {
    if (this.#isStopped) return;
    const isCurrent = (this.#replica?.status.ageMs ?? Number.POSITIVE_INFINITY) < doubtMs;
    if (!isCurrent) this.#doubt();
    else if (this.#state === "in doubt" && !this.#isLoading) void this.#load();
    const { isInCharge } = this;
    if (isInCharge && !this.#wasInCharge) {
      for (const listener of this.#listeners) listener.takeCharge?.();
    }
    this.#wasInCharge = isInCharge;
    for (const watch of [...this.#watchers]) watch();
  }

  #doubt(): void {
    if (this.#state === "in doubt") return;
    this.#state = "in doubt";
    for (const listener of this.#listeners) listener.doubt?.();
  }

  async #load(): Promise<void> {
    const replica = this.#replica;
    if (replica === undefined) return;
    this.#state = "loading";
    this.#isLoading = true;
    this.#meanwhile = [];
    let isLoaded = false;
    try {
      for (const listener of this.#listeners) await listener.load(replica.records);
      isLoaded = true;
    } catch (error) {
      // The replica was closed, or stepped down, in between, and its files with it.
      if (!(error instanceof FaultError) && this.#replica === replica) throw error;
    }
    this.#isLoading = false;
    if (!isLoaded || this.#stateNow() !== "loading") {
      // This node came in doubt meanwhile, so the loaded records may be old.
      for (const listener of this.#listeners) listener.doubt?.();
      this.#state = "in doubt";
      return;
    }
    this.#state = "current";
    notify(this.#listeners, this.#meanwhile.splice(0));
    this.#look();
  }

  /** A method, because an await in between may have changed the state. */
  #stateNow(): "in doubt" | "loading" | "current" {
    return this.#state;
  }

  #hear(answer: ControlAnswer): void {
    if (answer.kind === "hello") {
      this.#isUp = true;
      this.#look();
      return;
    }
    this.#waiting.get(answer.number)?.resolve(answer);
    this.#waiting.delete(answer.number);
  }

  #down(fault: FaultError): void {
    this.#isUp = false;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(fault);
  }

  /** Resolves when `holds` is true, and rejects when that takes too long. */
  #until(holds: () => boolean, fault: () => FaultError): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(waitMs, () => {
        this.#watchers.delete(watch);
        reject(fault());
      });
      const watch = (): void => {
        if (!holds()) return;
        this.#watchers.delete(watch);
        cancel();
        resolve();
      };
      this.#watchers.add(watch);
    });
  }
}
