/**
 * Durable, atomic changes of rows and keys: a commit log, the overlay of what the log holds and the kv
 * does not, and the kv. Rows are objects that become bytes in the log and at the flush; only their codec
 * knows what they mean.
 *
 * - `commit` changes what reads see at once; the change is durable when its group is. A caller waits for
 *   the group before it reports the change.
 * - A full disk rejects every batch that was not durable, puts memory back to what the log holds,
 *   and calls `onRollback`, so that code that decided on top of those batches can start over.
 * - Any other failure of the log or the kv is final: nothing is accepted or acknowledged any more.
 *
 * States: open, full (until there is space again), failed and closed (both final).
 */
import type { Op } from "./batch-codec.ts";
import type { EngineClock, EngineOptions, EngineState, EngineStats } from "./engine-options.ts";
import { FaultError } from "./fault.ts";
import { assertSameStore, flush, readPosition, trimAll } from "./flusher.ts";
import { type Group, GroupCommit } from "./group-commit.ts";
import { type BackupPosition, fullImage, type ImageBytes, logImage } from "./image.ts";
import type { KvEntry, KvRange } from "./kv/kv.ts";
import { Layers } from "./layers.ts";
import type { RowCursor } from "./merged-scan.ts";
import type { Overlay, Unflushed } from "./overlay.ts";
import { type ReplayPieces, replay } from "./replay.ts";
import type { Row, RowChange } from "./row-codec.ts";
import { SpaceWatch } from "./space-watch.ts";
import { Timers } from "./timers.ts";

/** A generation may grow to this many times the flush size before appends are held back. */
const overlayGrowthMax = 4;
const waitingBytesMax = 64 * 1024 * 1024;
/** How much of the log is kept for the next incremental backup. */
const heldLogBytesMax = 1024 * 1024 * 1024;
const noOps: readonly Op[] = [];
/** A kv that met a full disk is retried when there is this much more room than at the last try. */
const kvSpaceBytes = 4 * 1024 * 1024;

export class Engine implements AsyncDisposable {
  /** Called when a group takes no more batches; the ops that it returns become durable with the group. */
  onClosing: () => readonly Op[] = () => noOps;
  /** Called after a full disk undid batches; new ones are refused until it has finished. */
  onRollback: () => Promise<void> = () => Promise.resolve();
  /** Called with the key of a row whose bytes cannot be read. */
  onDamaged: (key: string) => void = () => {};
  readonly #options: EngineOptions;
  readonly #groups: GroupCommit;
  readonly #timers: Timers;
  readonly #space: SpaceWatch;
  readonly #stalls: WriteStalls;
  readonly #layers: Layers;
  /** The group of the last batch. */
  #newest: Group | undefined;
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
  /** How much room there was when the kv was last tried on a disk with too little room. */
  #kvTriedBytes = 0;
  /** Memory holds refused batches that could not be undone; none of it may reach the kv any more. */
  #isAhead = false;
  /** Data was deleted since the disk had too little space, and its space was not reclaimed yet. */
  #hasFreed = false;
  /** The next incremental backup needs the log from here on. */
  #heldFrom = Number.POSITIVE_INFINITY;
  #reclaiming: Promise<void> | undefined;

  private constructor(options: EngineOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock, (error) => this.#fail(error as FaultError));
    this.#space = new SpaceWatch(options, this.#timers);
    this.#stalls = new WriteStalls(options.clock);
    this.#flushedIndex = readPosition(options.kv);
    this.#durableIndex = options.log.lastIndex;
    this.#layers = new Layers(options.kv, options.rows, (key) => this.onDamaged(key));
    this.#groups = new GroupCommit({
      log: options.log,
      clock: options.clock,
      defer: options.defer,
      events: {
        opening: (index) => this.#freezeWhenLarge(index - 1),
        closing: (group) => this.#layers.write(group, this.onClosing()),
        durable: (group) => this.#onDurable(group),
        failed: (fault) => this.#onFault(fault),
      },
    });
  }

  /** Replays what the log holds beyond the kv, then flushes, so that only fresh records matter. */
  static async open(options: EngineOptions): Promise<Engine> {
    assertSameStore(options.kv, options.storeId);
    const engine = new Engine(options);
    let isVerified = false;
    const verify = (overlay: Overlay): void => {
      engine.#layers.replace(overlay);
      if (!isVerified) options.verify?.((key) => engine.get(key));
      isVerified = true;
    };
    verify(await replay(options, engine.#flushedIndex + 1, engine.#pieces(verify)));
    await engine.#checkSpace();
    // On a full disk the engine can be read, and it writes when there is space.
    if (engine.state === "open") {
      await engine.flushNow().catch((error: unknown) => {
        if (engine.state === "failed") throw error;
      });
    }
    const { syncIntervalMs, log } = options;
    if (syncIntervalMs !== undefined) engine.#timers.syncEvery(syncIntervalMs, log);
    return engine;
  }

  /** Takes records that are read from the log before there is an engine to flush them. */
  #pieces(prepare: (overlay: Overlay) => void): ReplayPieces {
    return {
      bytesMax: this.#options.flushBytes * overlayGrowthMax,
      flush: async (piece) => {
        prepare(piece.overlay);
        try {
          await flush(piece, { ...this.#flushParts, activeBytes: () => 0 });
        } catch (error) {
          const fault = error as FaultError;
          if (fault.code !== "disk_full") {
            this.#fail(fault);
            throw this.#fault;
          }
          // The next pieces are flushed after the kv was reopened, from the position that it then has.
          this.#kvIsFull = true;
          this.#becomeFull(fault);
          // The kv may still have kept the piece.
          if (readPosition(this.#options.kv) < piece.throughIndex) return false;
        }
        this.#flushedIndex = piece.throughIndex;
        return true;
      },
    };
  }

  get state(): EngineState {
    return this.#state;
  }

  /** The newest state of a row, durable or not; undefined also when it cannot be read. */
  row(id: string): Row | undefined {
    return this.#layers.row(id);
  }

  /** Makes a later `row` of each of these ids cheap; returns the rows that exist, as they are now. */
  readRowsAhead(ids: readonly string[]): Promise<readonly Row[]> {
    return this.#layers.readRowsAhead(ids);
  }

  /** The newest value, durable or not; of a row, its record. Throws `corrupt` when it is damaged. */
  get(key: string): Buffer | undefined {
    return this.#layers.get(key);
  }

  /** Like `get`, but returns a damaged value as it is in the kv, with its checksum. */
  raw(key: string): Buffer | undefined {
    return this.#layers.raw(key);
  }

  /** Like `get`, read as UTF-8. */
  getText(key: string): string | undefined {
    return this.#layers.getText(key);
  }

  /** Makes a later `getText` of each of these keys cheap; returns what the kv holds of them now. */
  readAhead(keys: readonly string[]): Promise<readonly KvEntry<string>[]> {
    return this.#layers.readAhead(keys);
  }

  /**
   * The group to wait for before the answer of `row` may be reported; undefined when the row is durable.
   * For a row that was refused it is a group that was refused.
   */
  rowGroup(id: string): Group | undefined {
    return this.#groupOf(this.#layers.rowEntry(id)?.index);
  }

  /** The same for what `get` answered. */
  groupOf(key: string): Group | undefined {
    return this.#groupOf(this.#layers.indexOf(key));
  }

  #groupOf(index: number | undefined): Group | undefined {
    if (index === undefined || index <= this.#durableIndex) return undefined;
    // A group that is gone was refused, and with it all later groups.
    return this.#groups.find(index) ?? this.#newest;
  }

  /** Like `rowGroup`; while refused changes are being undone, resolves after that. */
  whenRowDurable(id: string): Promise<void> | undefined {
    return this.#whenDurable(this.rowGroup(id));
  }

  /** The same for what `get` answered. */
  whenDurable(key: string): Promise<void> | undefined {
    return this.#whenDurable(this.groupOf(key));
  }

  #whenDurable(group: Group | undefined): Promise<void> | undefined {
    return group === undefined ? undefined : (this.#rollingBack ?? group.done);
  }

  /** Entries strictly inside the range as they are now, durable or not, in order. */
  scan(range: KvRange, limit: number): Promise<KvEntry[]> {
    return this.#layers.scan(range, limit);
  }

  /** Like `scan`, but only the keys, which copies no values. */
  scanKeys(range: KvRange, limit: number): Promise<string[]> {
    return this.#layers.scanKeys(range, limit);
  }

  /** Like `scanKeys` for each of many ranges, which are in order and do not meet. */
  firstKeys(ranges: readonly KvRange[], limit: number): Promise<string[][]> {
    return this.#layers.firstKeys(ranges, limit);
  }

  /**
   * A view of the rows whose ids lie strictly inside the range, in order; an empty end is the end of all.
   * The row is undefined where its bytes cannot be read. Nothing that the view reads stays in memory.
   */
  openRows(ids: KvRange): RowCursor {
    return this.#layers.openRows(ids);
  }

  /** Index of the log record up to which everything is durable: grows with every group of commits. */
  get durableIndex(): number {
    return this.#durableIndex;
  }

  /** What the kv does not hold yet, oldest generation first. */
  unflushed(): Unflushed {
    return this.#layers.unflushed();
  }

  /** True when batches arrive faster than they can be written for so long that memory fills. */
  get isOverloaded(): boolean {
    return this.#groups.waitingBytes > waitingBytesMax;
  }

  /** Throws what `commit` would throw now. */
  assertWritable(frees = false): void {
    if (this.#state === "open" || (frees && this.#takesDeletions)) return;
    throw this.#fault ?? new FaultError("closed", "the engine is closed");
  }

  /** Whether there is little room, but enough to write deletions, which free room. */
  get #takesDeletions(): boolean {
    const isStorable = !this.#kvIsFull && this.#options.log.isFull !== true;
    return this.#state === "full" && isStorable && this.#rollingBack === undefined;
  }

  /**
   * Makes all changes visible now and durable together. Those that free space are taken also when the
   * disk has less room than it should.
   */
  commit(changes: readonly RowChange[], ops: readonly Op[] = noOps, frees = false): Group {
    if (this.#state !== "open") this.assertWritable(frees);
    const group = this.#groups.open();
    if (changes.length > 0) this.#layers.change(group, changes);
    if (ops.length > 0) this.#layers.write(group, ops);
    group.batchCount += 1;
    this.#newest = group;
    if (this.#state === "full") this.#hasFreed = true;
    return group;
  }

  /** Brings everything committed so far into the kv. */
  async flushNow(): Promise<void> {
    for (;;) {
      if (this.#state === "failed" || this.#kvIsFull || this.#isAhead) throw this.#fault;
      const before = this.#rollingBack ?? this.#flushing ?? this.#groups.newest()?.done;
      if (before !== undefined) {
        await before;
        continue;
      }
      if (this.#layers.size === 0) return;
      if (this.#layers.frozen === undefined) this.#layers.freeze(this.#durableIndex);
      const generation = this.#layers.frozen;
      await this.#startFlush();
      if (this.#layers.frozen === generation) throw this.#fault;
    }
  }

  get hasFiles(): boolean {
    return this.#options.kv.files !== undefined;
  }

  /** Reads all files of the kv; a damaged file is a final failure. */
  async scrub(): Promise<void> {
    try {
      await this.#options.kv.files?.scrub();
    } catch (error) {
      this.#fail(error as FaultError);
      throw error;
    }
  }

  /**
   * Makes everything that is committed survive a power loss; with `fsync` it already does. A log that could not be
   * synced takes no more records.
   */
  async sync(): Promise<void> {
    try {
      await this.#options.log.sync();
    } catch (error) {
      this.#fail(error as FaultError);
      throw error;
    }
  }

  /** Makes the kv hold everything that is committed, so that the log is not needed to read it. */
  async settle(): Promise<void> {
    await this.flushNow();
    await trimAll(this.#flushParts);
  }

  get #flushParts(): EngineOptions & { readonly keepLogFrom: () => number } {
    const keepLogFrom = (): number => {
      const { log } = this.#options;
      // A log that is kept for a backup that never comes must not fill the disk.
      const isMuch = log.bytes > heldLogBytesMax || log.holdsMuch === true;
      if (isMuch) this.#heldFrom = Number.POSITIVE_INFINITY;
      return this.#heldFrom;
    };
    return { ...this.#options, keepLogFrom };
  }

  /**
   * A backup in pieces: everything as it is now or, behind a record, the log from there on; undefined when
   * the log does not reach back so far. The log is then kept from where the backup ends.
   */
  async backup(store: string, after: BackupPosition | undefined): Promise<ImageBytes | undefined> {
    await this.flushNow();
    const { kv, log, storeId = 0, clock } = this.#options;
    const head = { version: 1, identity: storeId, store, timeMs: clock.nowMs() } as const;
    if (after === undefined) {
      this.#heldFrom = readPosition(kv) + 1;
      return fullImage(kv, { ...head, kind: "full" });
    }
    const isOther = after.identity !== undefined && after.identity !== storeId;
    if (isOther || after.index + 1 < log.firstIndex || after.index > log.lastIndex)
      return undefined;
    const records = log.readFrom(after.index + 1);
    const image = logImage(records, { ...head, kind: "log", index: after.index });
    return this.#thenHeld(image, log.lastIndex);
  }

  async *#thenHeld(image: ImageBytes, last: number): ImageBytes {
    const end = yield* image;
    this.#heldFrom = Math.max(end.index, last) + 1;
    return end;
  }

  stats(): EngineStats {
    const { log, kv } = this.#options;
    return {
      state: this.#state,
      overlayEntries: this.#layers.size,
      overlayBytes: this.#layers.bytes,
      durableIndex: this.#durableIndex,
      flushedIndex: this.#flushedIndex,
      logBytes: log.bytes,
      waitingBytes: this.#groups.waitingBytes,
      writeStalls: this.#stalls.count,
      writeStallSeconds: this.#stalls.seconds,
      kv: kv.stats(),
    };
  }

  /** Refuses new batches, finishes the accepted ones, flushes and closes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#state === "closed") return;
    this.#fault = new FaultError("closed", "the engine is closed");
    if (this.#state !== "failed") this.#state = "closed";
    this.#timers.stop();
    this.#goOn();
    // Changes that cannot be flushed are in the log, where the next start finds them.
    await this.#reclaiming;
    await this.settle().catch(() => {});
    await this.#groups.newest()?.done.catch(() => {});
    await this.#kvIdle();
    await this.#rollingBack;
    await this.#options.log.close();
    if (this.#options.isKvLent !== true) await this.#options.kv.close();
  }

  #onDurable(group: Group): void {
    this.#durableIndex = group.index;
    this.#options.observer.grouped(group.batchCount, group.writer.bodyBytes);
    if (this.#layers.frozen?.throughIndex === group.index) void this.#startFlush();
    if (this.#space.wrote(group.writer.bodyBytes)) {
      this.#checkSpace().catch((error: unknown) => this.#fail(error as FaultError));
    }
  }

  #freezeWhenLarge(throughIndex: number): void {
    const { flushBytes } = this.#options;
    const { active, frozen } = this.#layers;
    if (active.bytes < flushBytes) return;
    if (frozen !== undefined) {
      // Only during a flush: changes that are not durable yet wait for appends themselves.
      const isFlushing = this.#durableIndex >= frozen.throughIndex;
      const isLarge = active.bytes > flushBytes * overlayGrowthMax;
      if (isFlushing && isLarge) this.#holdBack();
      return;
    }
    this.#layers.freeze(throughIndex);
    if (this.#durableIndex >= throughIndex) void this.#startFlush();
  }

  #holdBack(): void {
    this.#stalls.begin();
    this.#groups.pause();
  }

  #goOn(): void {
    this.#stalls.end();
    this.#groups.resume();
  }

  #startFlush(): Promise<void> {
    const flushing = this.#flushFrozen().finally(() => {
      // The next flush may have begun already.
      if (this.#flushing === flushing) this.#flushing = undefined;
    });
    this.#flushing = flushing;
    return flushing;
  }

  async #flushFrozen(): Promise<void> {
    const generation = this.#layers.frozen;
    if (generation === undefined) return;
    const { clock, observer } = this.#options;
    const startedMs = clock.monotonicMs();
    try {
      const activeBytes = (): number => this.#layers.active.bytes;
      await flush(generation, { ...this.#flushParts, activeBytes });
    } catch (error) {
      this.#onFlushFault(error as FaultError);
      return;
    }
    this.#flushedIndex = generation.throughIndex;
    this.#layers.flushed(generation);
    observer.flushed((clock.monotonicMs() - startedMs) / 1000, generation.overlay.size);
    this.#goOn();
  }

  /** The frozen generation stays readable in memory; it is flushed again once there is space. */
  #onFlushFault(fault: FaultError): void {
    if (fault.code !== "disk_full") {
      this.#fail(fault);
      return;
    }
    this.#kvIsFull = true;
    this.#becomeFull(fault);
    // Nothing new is accepted, so the commits that waited are all that memory still has to take.
    this.#goOn();
  }

  #onFault(fault: FaultError): void {
    if (fault.code !== "disk_full") {
      this.#isAhead = true;
      this.#fail(fault);
      return;
    }
    this.#rollingBack = this.#rollBack()
      .catch((error: unknown) => {
        this.#isAhead = true;
        this.#fail(isElsewhere(error) ? error : notUndone(error));
      })
      .finally(() => {
        this.#rollingBack = undefined;
      });
    this.#becomeFull(fault);
  }

  async #rollBack(): Promise<void> {
    await this.#kvIdle();
    this.#layers.forgetStored();
    await this.#readLog();
    this.#stalls.end();
    this.#groups.restart();
    await this.onRollback();
  }

  /** Loads what the log has beyond the kv, which may have kept a batch that it reported as failed. */
  async #readLog(): Promise<void> {
    this.#flushedIndex = Math.max(this.#flushedIndex, readPosition(this.#options.kv));
    this.#layers.replace(await replay(this.#options, this.#flushedIndex + 1));
  }

  async #checkSpace(): Promise<void> {
    const shortage = await this.#space.shortage();
    if (shortage !== undefined && this.#state === "open") this.#becomeFull(shortage);
  }

  #becomeFull(fault: FaultError): void {
    if (this.#state === "open") {
      this.#state = "full";
      this.#fault = fault;
      this.#options.observer.stateChanged("full", fault);
    }
    if (this.#state !== "full") return;
    this.#space.wait(this.#isRecovered, this.#acceptAgain, this.#reclaim);
  }

  /** Frees the room of deleted entries and of files that were prepared for later. */
  readonly #reclaim = (freeBytes: number): void => {
    if (this.#kvIsFull) this.#tryKv(freeBytes);
    if (this.#reclaiming !== undefined || !this.#takesDeletions || !this.#hasFreed) return;
    this.#hasFreed = false;
    this.#reclaiming = this.#giveBack()
      .catch(() => {
        // Retried with the next deletion; the flush reports what is wrong with the disk.
      })
      .finally(() => {
        this.#reclaiming = undefined;
      });
  };

  async #giveBack(): Promise<void> {
    const { kv, log } = this.#options;
    await log.release?.();
    await this.settle();
    // Trimmed segments were kept for later records; give them up.
    await log.release?.();
    await kv.files?.reclaim();
  }

  /** Lets tasks end and be deleted, which frees room, before there is as much room as configured. */
  #tryKv(freeBytes: number): void {
    const isBusy = this.#kvRecovery !== undefined || this.#rollingBack !== undefined;
    if (isBusy || freeBytes < this.#kvTriedBytes + kvSpaceBytes) return;
    this.#kvTriedBytes = freeBytes;
    this.#recoverKv().catch((error: unknown) => this.#fail(error as FaultError));
  }

  /** Makes the kv writable. */
  readonly #isRecovered = async (): Promise<boolean> => {
    if (this.#state !== "full") return true;
    if (this.#rollingBack !== undefined || this.#kvRecovery !== undefined) return false;
    // A shared log is trimmed when other nodes have its records.
    if (this.#options.log.isFull === true) return false;
    if (this.#kvIsFull && !(await this.#recoverKv())) return false;
    // Batches that were being appended may have been refused since.
    return this.#rollingBack === undefined;
  };

  readonly #acceptAgain = (): void => {
    if (this.#state !== "full") return;
    this.#state = "open";
    this.#fault = undefined;
    this.#kvTriedBytes = 0;
    this.#options.observer.stateChanged("open", undefined);
  };

  /** False when there is no room even to recover. */
  async #recoverKv(): Promise<boolean> {
    this.#kvRecovery = this.#reopenKv();
    try {
      await this.#kvRecovery;
    } catch (error) {
      const fault = error as FaultError;
      if (fault.code !== "disk_full") throw error;
      this.#reportShortage(fault);
      return false;
    } finally {
      this.#kvRecovery = undefined;
    }
    this.#kvIsFull = false;
    if (this.#layers.frozen !== undefined) void this.#startFlush();
    return true;
  }

  /** Reports how much room the kv needs, once; it is known only now. */
  #reportShortage(fault: FaultError): void {
    if (this.#fault?.message === fault.message) return;
    this.#fault = fault;
    this.#options.observer.stateChanged("full", fault);
  }

  /** A batch that the kv reported as failed may show up now, below what a rollback read from the log. */
  async #reopenKv(): Promise<void> {
    const { kv, log } = this.#options;
    await log.release?.();
    await kv.recover();
    if (readPosition(kv) < this.#flushedIndex) {
      throw new FaultError("storage_failed", "the key-value store lost what it was given");
    }
    this.#layers.forgetStored();
    if (this.#layers.frozen === undefined) await this.#readLog();
  }

  /** Waits until the kv is neither being written nor being reopened. */
  async #kvIdle(): Promise<void> {
    while ((this.#flushing ?? this.#kvRecovery) !== undefined) {
      await Promise.allSettled([this.#flushing, this.#kvRecovery]);
    }
  }

  #fail(fault: FaultError): void {
    if (this.#state === "failed" || this.#state === "closed") return;
    this.#state = "failed";
    const code = isElsewhere(fault) ? "not_leader" : "storage_failed";
    this.#fault = new FaultError(code, fault.message, fault);
    this.#groups.fail(this.#fault);
    this.#options.observer.stateChanged("failed", fault);
  }
}

/** Whether the error means that another node leads now, so that nothing is wrong with the storage here. */
function isElsewhere(error: unknown): error is FaultError {
  const isFault = error instanceof FaultError;
  return isFault && (error.code === "not_leader" || error.code === "unknown");
}

function notUndone(cause: unknown): FaultError {
  return new FaultError("storage_failed", "could not undo unfinished batches", cause);
}

/** Counts the times in which commits wait because the kv does not keep up. */
class WriteStalls {
  #count = 0;
  readonly #clock: EngineClock;
  #pastMs = 0;
  /** Undefined while no commit waits. */
  #sinceMs: number | undefined;

  constructor(clock: EngineClock) {
    this.#clock = clock;
  }

  begin(): void {
    if (this.#sinceMs !== undefined) return;
    this.#count += 1;
    this.#sinceMs = this.#clock.monotonicMs();
  }

  end(): void {
    this.#pastMs += this.#currentMs();
    this.#sinceMs = undefined;
  }

  get count(): number {
    return this.#count;
  }

  /** Includes the stall that is under way, if any. */
  get seconds(): number {
    return (this.#pastMs + this.#currentMs()) / 1000;
  }

  #currentMs(): number {
    return this.#sinceMs === undefined ? 0 : this.#clock.monotonicMs() - this.#sinceMs;
  }
}
