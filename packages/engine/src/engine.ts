/**
 * Durable, ordered, atomic bytes: a commit log, the overlay of what the log holds and the kv does
 * not, and the kv. Knows nothing of tasks.
 *
 * - `commit` changes what reads see at once; the change is durable when its group is. Whoever tells
 *   anybody about it waits for the group first.
 * - A full disk rejects every batch that was not durable, puts memory back to what the log holds,
 *   and calls `onRollback` so that whoever decided on top of those batches can start over.
 * - Any other failure of the log or the kv is final: nothing is accepted or acknowledged any more.
 *
 * States: open, full (leaves when there is space again), failed and closed (left by no one).
 */
import { decodeBody, type Op } from "./batch-codec.ts";
import { FaultError } from "./fault.ts";
import { type Derive, flush, readPosition } from "./flusher.ts";
import type { Commit, Group } from "./group.ts";
import { GroupCommit } from "./group-commit.ts";
import type { Kv, KvEntry, KvRange, KvStats } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import { mergedScan } from "./merged-scan.ts";
import { Overlay, type OverlayEntry } from "./overlay.ts";

export interface EngineObserver {
  grouped(batches: number, bytes: number): void;
  flushed(seconds: number, entries: number): void;
  stateChanged(state: EngineState, fault: FaultError | undefined): void;
}

export interface EngineOptions {
  readonly log: Log;
  readonly kv: Kv;
  readonly derive: Derive;
  readonly observer: EngineObserver;
  readonly freeBytes: () => Promise<number>;
  readonly clock: EngineClock;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  readonly minFreeBytes: number;
  /** Overlay size at which a flush begins. */
  readonly flushBytes: number;
  /** How often the log is synced in the background; undefined when appends or nobody does it. */
  readonly syncIntervalMs: number | undefined;
}

export interface EngineClock {
  nowMs(): number;
  monotonicMs(): number;
  after(delayMs: number, run: () => void): () => void;
}

export type EngineState = "open" | "full" | "failed" | "closed";

export interface EngineStats {
  readonly state: EngineState;
  readonly overlayEntries: number;
  readonly overlayBytes: number;
  readonly durableIndex: number;
  readonly flushedIndex: number;
  readonly logBytes: number;
  readonly waitingBytes: number;
  readonly kv: KvStats;
}

interface Generation {
  readonly overlay: Overlay;
  readonly throughIndex: number;
}

const spaceCheckMs = 500;
const spaceCheckBytes = 8 * 1024 * 1024;
/** A generation may grow to this many times the flush size before appends are held back. */
const overlayGrowthMax = 4;
const waitingBytesMax = 64 * 1024 * 1024;

export class Engine implements AsyncDisposable {
  /** Called after a full disk undid batches; new ones are refused until it has finished. */
  onRollback: () => Promise<void> = () => Promise.resolve();
  readonly #options: EngineOptions;
  readonly #groups: GroupCommit;
  #active: Overlay = new Overlay();
  #frozen: Generation | undefined;
  #flushing: Promise<void> | undefined;
  #flushedIndex: number;
  #durableIndex: number;
  #state: EngineState = "open";
  #fault: FaultError | undefined;
  #bytesSinceSpaceCheck = 0;
  #cancelTimers: Set<() => void> = new Set();
  #syncedIndex = 0;

  private constructor(options: EngineOptions) {
    this.#options = options;
    this.#flushedIndex = readPosition(options.kv);
    this.#durableIndex = options.log.lastIndex;
    this.#groups = new GroupCommit({
      log: options.log,
      nowMs: () => options.clock.nowMs(),
      defer: options.defer,
      events: {
        opening: (index) => this.#freezeWhenLarge(index - 1),
        durable: (group) => this.#onDurable(group),
        failed: (fault) => this.#onFault(fault),
      },
    });
  }

  /** Replays what the log holds beyond the kv, then flushes, so that only fresh records matter. */
  static async open(options: EngineOptions): Promise<Engine> {
    const engine = new Engine(options);
    const { log } = options;
    if (log.lastIndex < engine.#flushedIndex || log.firstIndex > engine.#flushedIndex + 1) {
      throw new FaultError(
        "corrupt",
        `the log holds records ${log.firstIndex} to ${log.lastIndex} but the store was written up ` +
          `to ${engine.#flushedIndex}; log and store do not belong together. Restore both from one backup.`,
      );
    }
    engine.#active = await engine.#replay();
    await engine.flushNow();
    engine.#syncPeriodically();
    return engine;
  }

  get state(): EngineState {
    return this.#state;
  }

  /** The newest value, durable or not. */
  get(key: string): Buffer | undefined {
    const entry = this.#active.entries.get(key) ?? this.#frozen?.overlay.entries.get(key);
    return entry === undefined ? this.#options.kv.get(key) : entry.value;
  }

  /** What to wait for before telling anybody what `get` answered; undefined when nothing. */
  whenDurable(key: string): Promise<void> | undefined {
    const entry = this.#active.entries.get(key) ?? this.#frozen?.overlay.entries.get(key);
    if (entry === undefined || entry.index <= this.#durableIndex) return undefined;
    return this.#groups.find(entry.index)?.done;
  }

  /** Entries strictly inside the range as they are now, durable or not, in order. */
  scan(range: KvRange, limit: number): Promise<KvEntry[]> {
    const overlays = this.#frozen === undefined ? [] : [this.#frozen.overlay];
    overlays.push(this.#active);
    return mergedScan({ kv: this.#options.kv, overlays, range, limit });
  }

  /** What the kv does not hold yet, oldest generation first. */
  *unflushed(): Generator<readonly [string, OverlayEntry]> {
    if (this.#frozen !== undefined) yield* this.#frozen.overlay.entries;
    yield* this.#active.entries;
  }

  /** True when batches arrive faster than they can be written for so long that memory fills. */
  get isOverloaded(): boolean {
    return this.#groups.waitingBytes > waitingBytesMax;
  }

  /** Throws what `commit` would throw now. */
  assertWritable(): void {
    if (this.#state === "open") return;
    throw this.#fault ?? new FaultError("closed", "the engine is closed");
  }

  /** Makes all ops visible now and durable together. */
  commit(ops: readonly Op[]): Commit {
    this.assertWritable();
    const group = this.#groups.open();
    for (const op of ops) {
      this.#active.apply(op.kind, op.key, group.writer.add(op), group.index);
    }
    group.batchCount += 1;
    return group;
  }

  /** Brings everything committed so far into the kv. */
  async flushNow(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
    await this.#groups.newest()?.done;
    if (this.#active.entries.size === 0 || this.#state === "failed") return;
    if (this.#groups.newest() !== undefined) return this.flushNow();
    this.#freeze(this.#durableIndex);
    this.#startFlush();
    await this.#flushing;
  }

  stats(): EngineStats {
    const { log, kv } = this.#options;
    return {
      state: this.#state,
      overlayEntries: this.#active.entries.size + (this.#frozen?.overlay.entries.size ?? 0),
      overlayBytes: this.#active.bytes + (this.#frozen?.overlay.bytes ?? 0),
      durableIndex: this.#durableIndex,
      flushedIndex: this.#flushedIndex,
      logBytes: log.bytes,
      waitingBytes: this.#groups.waitingBytes,
      kv: kv.stats(),
    };
  }

  /** Refuses new batches, finishes those accepted, flushes and closes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#state === "closed") return;
    const wasOpen = this.#state === "open";
    this.#fault = new FaultError("closed", "the engine is closed");
    if (this.#state !== "failed") this.#state = "closed";
    for (const cancel of this.#cancelTimers) cancel();
    await this.#groups.newest()?.done.catch(() => {});
    if (wasOpen) await this.flushNow();
    await this.#flushing;
    await this.#options.log.close();
    await this.#options.kv.close();
  }

  async #replay(): Promise<Overlay> {
    const overlay = new Overlay();
    for await (const record of this.#options.log.readFrom(this.#flushedIndex + 1)) {
      // The body is only valid until the next record; the overlay keeps views of it.
      for (const { kind, key, value } of decodeBody(Buffer.from(record.body))) {
        overlay.apply(kind, key, value, record.index);
      }
    }
    return overlay;
  }

  #onDurable(group: Group): void {
    this.#durableIndex = group.index;
    this.#options.observer.grouped(group.batchCount, group.writer.bodyBytes);
    if (this.#frozen?.throughIndex === group.index) this.#startFlush();
    this.#bytesSinceSpaceCheck += group.writer.bodyBytes;
    if (this.#bytesSinceSpaceCheck >= spaceCheckBytes) {
      this.#bytesSinceSpaceCheck = 0;
      void this.#checkSpace();
    }
  }

  #freezeWhenLarge(throughIndex: number): void {
    const { flushBytes } = this.#options;
    if (this.#active.bytes < flushBytes) return;
    if (this.#frozen !== undefined) {
      if (this.#active.bytes > flushBytes * overlayGrowthMax) this.#groups.pause();
      return;
    }
    this.#freeze(throughIndex);
    if (this.#durableIndex >= throughIndex) this.#startFlush();
  }

  #freeze(throughIndex: number): void {
    this.#frozen = { overlay: this.#active, throughIndex };
    this.#active = new Overlay();
  }

  #startFlush(): void {
    this.#flushing = this.#flushFrozen().finally(() => {
      this.#flushing = undefined;
    });
  }

  async #flushFrozen(): Promise<void> {
    const generation = this.#frozen;
    if (generation === undefined) return;
    const { kv, log, derive, clock, observer } = this.#options;
    const startedMs = clock.monotonicMs();
    try {
      await flush(generation, { kv, log, derive });
    } catch (error) {
      this.#onFlushFault(error as FaultError);
      return;
    }
    this.#flushedIndex = generation.throughIndex;
    this.#frozen = undefined;
    observer.flushed((clock.monotonicMs() - startedMs) / 1000, generation.overlay.entries.size);
    this.#groups.resume();
  }

  /** The frozen generation stays readable in memory; it is flushed again once there is space. */
  #onFlushFault(fault: FaultError): void {
    if (fault.code !== "disk_full") {
      this.#fail(fault);
      return;
    }
    this.#becomeFull(fault);
    this.#waitForSpace(async () => {
      await this.#options.kv.recover();
      this.#startFlush();
    });
  }

  #onFault(fault: FaultError): void {
    if (fault.code !== "disk_full") {
      this.#fail(fault);
      return;
    }
    this.#becomeFull(fault);
    this.#rollBack().catch((error: unknown) => {
      this.#fail(new FaultError("storage_failed", "could not undo unfinished batches", error));
    });
  }

  async #rollBack(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
    const overlay = await this.#replay();
    this.#active = overlay;
    this.#frozen = undefined;
    this.#groups.restart();
    await this.onRollback();
    this.#waitForSpace(() => Promise.resolve());
  }

  async #checkSpace(): Promise<void> {
    const free = await this.#options.freeBytes();
    if (free >= this.#options.minFreeBytes || this.#state !== "open") return;
    this.#becomeFull(
      new FaultError("disk_full", `${free} bytes are left on the disk of the data directory`),
    );
    this.#waitForSpace(() => Promise.resolve());
  }

  /** Looks for space again and again, then makes the store writable and accepts batches. */
  #waitForSpace(makeWritable: () => Promise<void>): void {
    this.#after(spaceCheckMs, async () => {
      const free = await this.#options.freeBytes();
      if (this.#state !== "full") return;
      if (free < this.#options.minFreeBytes) {
        this.#waitForSpace(makeWritable);
        return;
      }
      await makeWritable();
      this.#state = "open";
      this.#fault = undefined;
      this.#options.observer.stateChanged("open", undefined);
    });
  }

  #becomeFull(fault: FaultError): void {
    if (this.#state !== "open") return;
    this.#state = "full";
    this.#fault = fault;
    this.#options.observer.stateChanged("full", fault);
  }

  #fail(fault: FaultError): void {
    if (this.#state === "failed") return;
    this.#state = "failed";
    this.#fault = new FaultError("storage_failed", fault.message, fault);
    this.#options.observer.stateChanged("failed", fault);
  }

  #syncPeriodically(): void {
    const { syncIntervalMs, log } = this.#options;
    if (syncIntervalMs === undefined) return;
    this.#after(syncIntervalMs, async () => {
      const index = this.#durableIndex;
      if (index > this.#syncedIndex) await log.sync();
      this.#syncedIndex = index;
      this.#syncPeriodically();
    });
  }

  #after(delayMs: number, run: () => Promise<void>): void {
    const cancel = this.#options.clock.after(delayMs, () => {
      this.#cancelTimers.delete(cancel);
      run().catch((error: unknown) => this.#fail(error as FaultError));
    });
    this.#cancelTimers.add(cancel);
  }
}
