/**
 * One log on this node: opens the node's copy as soon as that is possible, and opens it again with a copy of another
 * node when it is too far behind.
 *
 * States: opening (retries every second), open, halted (for a repair; until `resume`, or a minute without an order),
 * stopped.
 */
import { FaultError, type ReplicaStatus, type SharedLog } from "@codeq/engine";
import type { Clock } from "../core/clock.ts";
import type { LogReplica } from "./log-replica.ts";

export interface NodeLogParts {
  readonly shard: number;
  readonly clock: Clock;
  /** Undefined while the log does not exist. Throws a fault that may be temporary. */
  readonly find: () => Promise<SharedLog | undefined>;
  /** Opens the node's copy, after copying another node if it has too little. Throws a fault that may be temporary. */
  readonly open: (shared: SharedLog) => Promise<LogReplica>;
  readonly files: ReplicaFiles;
  /** Called with undefined while there is no replica. */
  readonly onReplica: (replica: LogReplica | undefined) => void;
  readonly onChange: () => void;
  readonly onWait: (problem: string) => void;
}

/** The files of a log on this node, while they are not open. */
export interface ReplicaFiles {
  /** The log and the place that the files have reached; undefined when there are none. Throws when damaged. */
  stored(): Promise<StoredPosition | undefined>;
  /** Switches the files to another log, which begins after their place. */
  moveToLog(logId: number): Promise<void>;
  /** Moves the files aside; returns their new path. */
  setAside(): Promise<string | undefined>;
}

export interface StoredPosition {
  readonly logId: number;
  readonly epoch: number;
  readonly slot: number;
}

export interface LogStatus extends Omit<ReplicaStatus, "role"> {
  readonly role: ReplicaStatus["role"] | "waiting";
}

/** The state of a log on a node, for a repair. */
export interface ReplicaReport {
  readonly shard: number;
  readonly role: LogStatus["role"];
  /** Undefined when the node has nothing of the log. */
  readonly stored: StoredPosition | undefined;
  /** The files of the node cannot be read. */
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
  /** Why the log is not open. */
  #problem: string | undefined;
  #opening: Promise<void> = Promise.resolve();
  #isStopping = false;
  #isHalted = false;
  #wake: () => void = () => {};
  /** The last call that has the files open. */
  #turn: Promise<unknown> = Promise.resolve();
  #cancelResume: () => void = () => {};

  constructor(parts: NodeLogParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#opening = this.#open();
  }

  /** The replica for reads and channels; undefined when the node is ending. */
  get replica(): LogReplica | undefined {
    return this.#isStopping ? undefined : this.#replica;
  }

  get status(): LogStatus {
    return this.#replica?.status ?? { ...waiting, problem: this.#problem };
  }

  async report(): Promise<ReplicaReport> {
    const { shard, files } = this.#parts;
    const { role, problem } = this.status;
    const of = { shard, role, problem, isDamaged: false };
    const open = this.#openPosition;
    if (open !== undefined) return { ...of, stored: open };
    try {
      // The replica may have been opened before this has its turn.
      const look = async (): Promise<StoredPosition | undefined> =>
        this.#replica === undefined ? await files.stored() : this.#openPosition;
      return { ...of, stored: await this.#soon(this.#inTurn(look)) };
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const isDamaged = error.code === "corrupt" || error.code === "format";
      return { ...of, stored: undefined, isDamaged, problem: error.message };
    }
  }

  /** The place of the open replica, once it is known. */
  get #openPosition(): StoredPosition | undefined {
    const logId = this.#replica?.logId;
    const { epoch, slot } = this.status;
    return logId === undefined ? undefined : { logId, epoch, slot };
  }

  /** The log was trimmed beyond what this node has: starts over with a copy. */
  reopen(): void {
    const replica = this.#replica;
    if (replica === undefined) return;
    this.#let(undefined);
    const closed = this.#inTurn(() => replica[Symbol.asyncDispose]());
    this.#opening = closed.then(() => this.#open());
  }

  /** Abandons the log and makes everything that this node has durable; returns the place it has reached. */
  async halt(): Promise<StoredPosition | undefined> {
    this.#isHalted = true;
    this.#cancelResume();
    this.#cancelResume = this.#parts.clock.after(haltMsMax, () => this.resume());
    this.#wake();
    await this.#opening;
    const replica = this.#replica;
    this.#let(undefined);
    this.#problem = "it is being repaired";
    return await this.#inTurn(async () => {
      await replica?.abandon();
      return await this.#parts.files.stored();
    });
  }

  /** Switches the copy of this node to another log. */
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

  /** Moves the data of this node aside, so that it copies everything from another node. */
  async replace(): Promise<string | undefined> {
    await this.halt().catch((error: unknown) => {
      // Data that cannot be read is moved aside, too.
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
          const replica = await this.#inTurn(async () => {
            this.#replica = await this.#parts.open(shared);
            return this.#replica;
          });
          this.#problem = undefined;
          this.#let(replica);
          return;
        }
        this.#wait(
          "its log does not exist yet; set clusterBootstrap to the id of the node that begins the cluster",
        );
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
        this.#wait(error.message);
      }
      await this.#pause();
    }
  }

  /** Only one call at a time may have the files open. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const next = this.#turn.then(run);
    this.#turn = next.catch(() => {
      // The caller of `run` gets the error.
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
