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
import type { Op } from "./batch-codec.ts";
import type { EngineOptions, EngineState, EngineStats } from "./engine-options.ts";
import { FaultError } from "./fault.ts";
import { flush, type Generation, readPosition } from "./flusher.ts";
import type { Commit, Group } from "./group.ts";
import { GroupCommit } from "./group-commit.ts";
import type { KvEntry, KvRange } from "./kv/kv.ts";
import { type Layers, scanEntries, scanKeys } from "./merged-scan.ts";
import { Overlay, type OverlayEntry } from "./overlay.ts";
import { ReadAhead } from "./read-ahead.ts";
import { replay } from "./replay.ts";
import { Timers } from "./timers.ts";

const spaceCheckMs = 500;
const spaceCheckBytes = 8 * 1024 * 1024;
/** A generation may grow to this many times the flush size before appends are held back. */
const overlayGrowthMax = 4;
const waitingBytesMax = 64 * 1024 * 1024;

export class Engine implements AsyncDisposable {
  /** Called when a group takes no more batches; what it returns becomes durable with the group. */
  onClosing: () => readonly Op[] = () => [];
  /** Called after a full disk undid batches; new ones are refused until it has finished. */
  onRollback: () => Promise<void> = () => Promise.resolve();
  readonly #options: EngineOptions;
  readonly #groups: GroupCommit;
  readonly #timers: Timers;
  readonly #ahead: ReadAhead;
  #active: Overlay = new Overlay();
  #frozen: Generation | undefined;
  #flushing: Promise<void> | undefined;
  #flushedIndex: number;
  #durableIndex: number;
  #state: EngineState = "open";
  #fault: FaultError | undefined;
  /** Puts memory back to what the log holds, after a full disk. */
  #rollingBack: Promise<void> | undefined;
  /** The kv refused a batch for lack of space and takes no other until it has recovered. */
  #kvIsFull = false;
  #kvRecovery: Promise<void> | undefined;
  #isWaitingForSpace = false;
  #bytesSinceSpaceCheck = 0;

  private constructor(options: EngineOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock, (error) => this.#fail(error as FaultError));
    this.#flushedIndex = readPosition(options.kv);
    this.#durableIndex = options.log.lastIndex;
    this.#ahead = new ReadAhead(options.kv);
    this.#groups = new GroupCommit({
      log: options.log,
      nowMs: () => options.clock.nowMs(),
      defer: options.defer,
      events: {
        opening: (index) => this.#freezeWhenLarge(index - 1),
        closing: (group) => this.#add(group, this.onClosing()),
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
    engine.#active = await replay(options, engine.#flushedIndex + 1);
    options.verify?.((key) => engine.get(key));
    await engine.flushNow().catch((error: unknown) => {
      // On a full disk the engine can be read, and it writes when there is space.
      if (engine.state === "failed") throw error;
    });
    const { syncIntervalMs } = options;
    if (syncIntervalMs !== undefined) engine.#timers.syncEvery(syncIntervalMs, log);
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

  /** The same, read as UTF-8. */
  getText(key: string): string | undefined {
    const entry = this.#active.entries.get(key) ?? this.#frozen?.overlay.entries.get(key);
    if (entry !== undefined) return entry.text;
    return this.#ahead.take(key) ?? this.#options.kv.getText(key);
  }

  /** Makes a later `getText` of each of these keys cheap and tells what the kv holds of them now. */
  readAhead(keys: readonly string[]): Promise<readonly KvEntry<string>[]> {
    return this.#ahead.read(keys);
  }

  /** What to wait for before telling anybody what `get` answered; undefined when nothing. */
  whenDurable(key: string): Promise<void> | undefined {
    const entry = this.#active.entries.get(key) ?? this.#frozen?.overlay.entries.get(key);
    if (entry === undefined || entry.index <= this.#durableIndex) return undefined;
    const group = this.#groups.find(entry.index);
    // Without a group it was refused: it goes away, or nobody knows what has become of it.
    return group?.done ?? this.#rollingBack ?? Promise.reject(this.#fault);
  }

  /** Entries strictly inside the range as they are now, durable or not, in order. */
  scan(range: KvRange, limit: number): Promise<KvEntry[]> {
    return scanEntries(this.#layers(), range, limit);
  }

  /** Only their keys, for which no bytes are copied. */
  scanKeys(range: KvRange, limit: number): Promise<string[]> {
    return scanKeys(this.#layers(), range, limit);
  }

  #layers(): Layers {
    const frozen = this.#frozen === undefined ? [] : [this.#frozen.overlay];
    return { ...this.#options, overlays: [...frozen, this.#active] };
  }

  /** What the kv does not hold yet, oldest generation first. */
  *unflushed(): Generator<readonly [string, OverlayEntry]> {
    const frozen = this.#frozen;
    // The kv may have kept a batch that it reported as failed.
    const isKept = frozen !== undefined && readPosition(this.#options.kv) >= frozen.throughIndex;
    if (frozen !== undefined && !isKept) yield* frozen.overlay.entries;
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
    this.#add(group, ops);
    group.batchCount += 1;
    return group;
  }

  /** Brings everything committed so far into the kv. */
  async flushNow(): Promise<void> {
    for (;;) {
      if (this.#state === "failed" || this.#kvIsFull) throw this.#fault;
      const before = this.#rollingBack ?? this.#flushing ?? this.#groups.newest()?.done;
      if (before !== undefined) {
        await before;
        continue;
      }
      if (this.#frozen === undefined && this.#active.entries.size === 0) return;
      if (this.#frozen === undefined) this.#freeze(this.#durableIndex);
      const generation = this.#frozen;
      await this.#startFlush();
      if (this.#frozen === generation) throw this.#fault;
    }
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
    this.#fault = new FaultError("closed", "the engine is closed");
    if (this.#state !== "failed") this.#state = "closed";
    this.#timers.stop();
    this.#groups.resume();
    // What cannot be flushed is in the log, where the next start finds it.
    await this.flushNow().catch(() => {});
    await this.#groups.newest()?.done.catch(() => {});
    await this.#kvIdle();
    await this.#rollingBack;
    await this.#options.log.close();
    await this.#options.kv.close();
  }

  #add({ writer, index }: Group, ops: readonly Op[]): void {
    for (const op of ops) {
      writer.add(op);
      this.#active.apply(op, writer.last, index);
    }
  }

  #onDurable(group: Group): void {
    this.#durableIndex = group.index;
    this.#options.observer.grouped(group.batchCount, group.writer.bodyBytes);
    if (this.#frozen?.throughIndex === group.index) void this.#startFlush();
    this.#bytesSinceSpaceCheck += group.writer.bodyBytes;
    if (this.#bytesSinceSpaceCheck >= spaceCheckBytes) {
      this.#bytesSinceSpaceCheck = 0;
      this.#checkSpace().catch((error: unknown) => this.#fail(error as FaultError));
    }
  }

  #freezeWhenLarge(throughIndex: number): void {
    const { flushBytes } = this.#options;
    if (this.#active.bytes < flushBytes) return;
    if (this.#frozen !== undefined) {
      // Only while it is being flushed: what is not durable yet waits for appends itself.
      const isFlushing = this.#durableIndex >= this.#frozen.throughIndex;
      const isLarge = this.#active.bytes > flushBytes * overlayGrowthMax;
      if (isFlushing && isLarge) this.#groups.pause();
      return;
    }
    this.#freeze(throughIndex);
    if (this.#durableIndex >= throughIndex) void this.#startFlush();
  }

  #freeze(throughIndex: number): void {
    this.#frozen = { overlay: this.#active, throughIndex };
    this.#active = new Overlay();
  }

  #startFlush(): Promise<void> {
    const flushing = this.#flushFrozen().finally(() => {
      // The next one may have begun already.
      if (this.#flushing === flushing) this.#flushing = undefined;
    });
    this.#flushing = flushing;
    return flushing;
  }

  async #flushFrozen(): Promise<void> {
    const generation = this.#frozen;
    if (generation === undefined) return;
    const { clock, observer } = this.#options;
    const startedMs = clock.monotonicMs();
    try {
      await flush(generation, this.#options);
    } catch (error) {
      this.#onFlushFault(error as FaultError);
      return;
    }
    this.#flushedIndex = generation.throughIndex;
    this.#ahead.flushed(generation.overlay);
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
    this.#kvIsFull = true;
    this.#becomeFull(fault);
    // Nothing new is accepted, so what was held back is all that memory has to take.
    this.#groups.resume();
  }

  #onFault(fault: FaultError): void {
    if (fault.code !== "disk_full") {
      this.#fail(fault);
      return;
    }
    this.#rollingBack = this.#rollBack()
      .catch((error: unknown) => {
        this.#fail(new FaultError("storage_failed", "could not undo unfinished batches", error));
      })
      .finally(() => {
        this.#rollingBack = undefined;
      });
    this.#becomeFull(fault);
  }

  async #rollBack(): Promise<void> {
    await this.#kvIdle();
    if (this.#frozen !== undefined) this.#ahead.flushed(this.#frozen.overlay);
    await this.#readLog();
    this.#frozen = undefined;
    this.#groups.restart();
    await this.onRollback();
  }

  /** Holds what the log has beyond the kv, which may have kept a batch that it reported as failed. */
  async #readLog(): Promise<void> {
    this.#flushedIndex = Math.max(this.#flushedIndex, readPosition(this.#options.kv));
    this.#active = await replay(this.#options, this.#flushedIndex + 1);
  }

  async #checkSpace(): Promise<void> {
    const free = await this.#options.freeBytes();
    if (free >= this.#options.minFreeBytes || this.#state !== "open") return;
    const text = `${free} bytes are left on the disk of the data directory`;
    this.#becomeFull(new FaultError("disk_full", text));
  }

  #becomeFull(fault: FaultError): void {
    if (this.#state === "open") {
      this.#state = "full";
      this.#fault = fault;
      this.#options.observer.stateChanged("full", fault);
    }
    if (this.#state === "full" && !this.#isWaitingForSpace) this.#waitForSpace();
  }

  /** Looks for space again and again, then makes the kv writable and accepts batches. */
  #waitForSpace(): void {
    this.#isWaitingForSpace = true;
    this.#timers.after(spaceCheckMs, async () => {
      const free = await this.#options.freeBytes();
      if (this.#state !== "full") return;
      const hasRoom = free >= this.#options.minFreeBytes && this.#rollingBack === undefined;
      const isRecovered = hasRoom && (!this.#kvIsFull || (await this.#recoverKv()));
      if (this.#state !== "full") return;
      // Batches that were under way may have been refused since.
      if (!isRecovered || this.#rollingBack !== undefined) {
        this.#waitForSpace();
        return;
      }
      this.#isWaitingForSpace = false;
      this.#state = "open";
      this.#fault = undefined;
      this.#options.observer.stateChanged("open", undefined);
    });
  }

  /** False when there is no room even for that. */
  async #recoverKv(): Promise<boolean> {
    this.#kvRecovery = this.#openKvAnew();
    try {
      await this.#kvRecovery;
    } catch (error) {
      if ((error as FaultError).code === "disk_full") return false;
      throw error;
    } finally {
      this.#kvRecovery = undefined;
    }
    this.#kvIsFull = false;
    if (this.#frozen !== undefined) void this.#startFlush();
    return true;
  }

  /** Such a batch may show only now, below what a rollback read from the log. */
  async #openKvAnew(): Promise<void> {
    await this.#options.kv.recover();
    if (this.#frozen !== undefined) return;
    this.#ahead.flushed(this.#active);
    await this.#readLog();
  }

  /** Waits until the kv is neither written to nor opened anew. */
  async #kvIdle(): Promise<void> {
    while ((this.#flushing ?? this.#kvRecovery) !== undefined) {
      await Promise.allSettled([this.#flushing, this.#kvRecovery]);
    }
  }

  #fail(fault: FaultError): void {
    if (this.#state === "failed" || this.#state === "closed") return;
    this.#state = "failed";
    this.#fault = new FaultError("storage_failed", fault.message, fault);
    this.#groups.fail(this.#fault);
    this.#options.observer.stateChanged("failed", fault);
  }
}
