/**
 * One log on this node: opens what the node has of it as soon as that is possible, and opens it anew with a copy of
 * another node when it is too far behind.
 *
 * States: opening (tries again every second), open, halted (for a repair; left by `resume`, or after a minute without
 * a word), stopped.
 */
import { FaultError, type ReplicaStatus, type SharedLog } from "@codeq/engine";
import type { Clock } from "../clock.ts";
import type { LogReplica } from "./log-replica.ts";

export interface NodeLogParts {
  readonly shard: number;
  readonly clock: Clock;
  /** Undefined while nobody has made the log. Throws a fault that may pass. */
  readonly find: () => Promise<SharedLog | undefined>;
  /** Opens what the node has of it, after a copy if it has too little. Throws a fault that may pass. */
  readonly open: (shared: SharedLog) => Promise<LogReplica>;
  readonly files: ReplicaFiles;
  /** Undefined while there is none. */
  readonly onReplica: (replica: LogReplica | undefined) => void;
  readonly onChange: () => void;
  readonly onWait: (problem: string) => void;
}

/** The files of a log on this node, while nobody has them open. */
export interface ReplicaFiles {
  /** Where in which log they are; undefined when there is nothing. Throws when they cannot be read. */
  stored(): Promise<StoredPlace | undefined>;
  /** They go on with another log, which begins behind where they are. */
  moveToLog(logId: number): Promise<void>;
  /** Takes them out of the way; says where they are now. */
  setAside(): Promise<string | undefined>;
}

export interface StoredPlace {
  readonly logId: number;
  readonly epoch: number;
  readonly slot: number;
}

export interface LogStatus extends Omit<ReplicaStatus, "role"> {
  readonly role: ReplicaStatus["role"] | "waiting";
}

/** What a node has of a log, for a repair. */
export interface ReplicaReport {
  readonly shard: number;
  readonly role: LogStatus["role"];
  /** Undefined when it has nothing. */
  readonly stored: StoredPlace | undefined;
  /** What it has cannot be read. */
  readonly isDamaged: boolean;
  readonly problem: string | undefined;
}

const retryMs = 1000;
const haltMsMax = 60_000;
/** Files that are open for longer are being filled by a copy. */
const lookMsMax = 2000;
const waiting: LogStatus = {
  role: "waiting",
  leader: undefined,
  epoch: 0,
  slot: 0,
  index: 0,
  silentMs: 0,
  ageMs: Number.POSITIVE_INFINITY,
  problem: undefined,
};

export class NodeLog implements AsyncDisposable {
  readonly #parts: NodeLogParts;
  #replica: LogReplica | undefined;
  /** Why it is not open. */
  #problem: string | undefined;
  #opening: Promise<void> = Promise.resolve();
  #isStopping = false;
  #isHalted = false;
  #wake: () => void = () => {};
  /** Of those who open the files. */
  #turn: Promise<unknown> = Promise.resolve();
  #cancelResume: () => void = () => {};

  constructor(parts: NodeLogParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#opening = this.#open();
  }

  /** For those who read from it or talk to it; a node that ends takes no more of them. */
  get replica(): LogReplica | undefined {
    return this.#isStopping ? undefined : this.#replica;
  }

  get status(): LogStatus {
    return this.#replica?.status ?? { ...waiting, problem: this.#problem };
  }

  async report(): Promise<ReplicaReport> {
    const { shard, files } = this.#parts;
    const { role, epoch, slot, problem } = this.status;
    const of = { shard, role, problem, isDamaged: false };
    const logId = this.#replica?.logId;
    if (logId !== undefined) return { ...of, stored: { logId, epoch, slot } };
    try {
      return { ...of, stored: await this.#soon(this.#inTurn(() => files.stored())) };
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const isDamaged = error.code === "corrupt" || error.code === "format";
      return { ...of, stored: undefined, isDamaged, problem: error.message };
    }
  }

  /** The log was trimmed beyond what this node has: begins again, with a copy. */
  openAnew(): void {
    const replica = this.#replica;
    if (replica === undefined) return;
    this.#let(undefined);
    this.#opening = replica[Symbol.asyncDispose]().then(() => this.#open());
  }

  /** Gives up the log and puts everything that this node has onto its disk; says how far that is. */
  async halt(): Promise<StoredPlace | undefined> {
    this.#isHalted = true;
    this.#cancelResume();
    this.#cancelResume = this.#parts.clock.after(haltMsMax, () => this.resume());
    this.#wake();
    await this.#opening;
    const replica = this.#replica;
    this.#let(undefined);
    this.#problem = "it is being repaired";
    await replica?.abandon();
    return await this.#inTurn(() => this.#parts.files.stored());
  }

  /** The copy of this node goes on with another log. */
  async moveToLog(logId: number): Promise<void> {
    this.#assertHalted();
    await this.#inTurn(() => this.#parts.files.moveToLog(logId));
  }

  resume(): void {
    if (!this.#isHalted || this.#isStopping) return;
    this.#cancelResume();
    this.#isHalted = false;
    this.start();
  }

  /** Puts what this node has aside, so that it copies everything from another node. */
  async replace(): Promise<string | undefined> {
    await this.halt().catch((error: unknown) => {
      // What cannot be read is put aside all the same.
      if (!(error instanceof FaultError)) throw error;
    });
    try {
      return await this.#inTurn(() => this.#parts.files.setAside());
    } finally {
      this.resume();
    }
  }

  /** Hands over what this node leads, and ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#cancelResume();
    this.#wake();
    await this.#opening;
    await this.#replica?.[Symbol.asyncDispose]();
  }

  #assertHalted(): void {
    if (this.#isHalted && this.#replica === undefined) return;
    throw new FaultError("locked", "the repair took too long; run it again");
  }

  async #open(): Promise<void> {
    while (!this.#isStopping && !this.#isHalted) {
      try {
        const shared = await this.#parts.find();
        if (shared !== undefined) {
          const replica = await this.#inTurn(() => this.#parts.open(shared));
          this.#problem = undefined;
          this.#let(replica);
          return;
        }
        this.#wait("nobody has made its log yet; start one node with clusterBootstrap: true");
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
        this.#wait(error.message);
      }
      await this.#pause();
    }
  }

  /** Only one may have the files open. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const next = this.#turn.then(run);
    this.#turn = next.catch(() => {
      // Told to whoever asked for it.
    });
    return next;
  }

  #soon<T>(wanted: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const cancel = this.#parts.clock.after(lookMsMax, () => resolve(undefined));
      wanted.then(resolve, reject).finally(cancel);
    });
  }

  #let(replica: LogReplica | undefined): void {
    this.#replica = replica;
    this.#parts.onReplica(this.replica);
    this.#parts.onChange();
  }

  #wait(problem: string): void {
    this.#problem = problem;
    this.#parts.onWait(problem);
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(retryMs, () => this.#wake());
      this.#wake = () => {
        this.#wake = () => {};
        cancel();
        resolve();
      };
      if (this.#isStopping || this.#isHalted) this.#wake();
    });
  }
}
