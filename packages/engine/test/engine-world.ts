/**
 * An engine on a simulated disk, clock and kv, which can crash, run full and be opened again. The
 * contents of the kv outlive every engine, as files would.
 */
// biome-ignore lint/correctness/noUndeclaredDependencies: that package depends on this one.
import { SimClock, SimDisk, type SimDiskOperation, SimRandom, settle } from "@codeq/simulated";
import { Engine } from "../src/engine.ts";
import type { EngineState } from "../src/engine-options.ts";
import { FaultError } from "../src/fault.ts";
import { type Derive, readPosition } from "../src/flusher.ts";
import { sealedEnd } from "../src/kv/checked-value.ts";
import type { KvWrite } from "../src/kv/kv.ts";
import { CollectedBatch, MemoryKv } from "../src/kv/memory-kv.ts";
import { type Durability, LocalLog } from "../src/log/local-log.ts";
import { things } from "./things.ts";

export interface EngineWorldOptions {
  readonly seed?: number;
  readonly durability?: Durability;
  readonly flushBytes?: number;
  readonly segmentBytes?: number;
  readonly minFreeBytes?: number;
  readonly syncIntervalMs?: number;
  readonly derive?: Derive;
  readonly defer?: (run: () => void) => void;
}

export class EngineWorld {
  readonly clock: SimClock = new SimClock();
  readonly random: SimRandom;
  readonly contents: Map<string, Buffer> = new Map();
  readonly states: EngineState[] = [];
  readonly groups: number[] = [];
  readonly flushes: number[] = [];
  readonly kvWrites: string[][] = [];
  readonly syncs: number[] = [];
  /** Called before the kv applies a batch; may delay or refuse it. */
  beforeWrite: () => Promise<void> = () => Promise.resolve();
  /** Called after the kv has applied a batch; may report a failure all the same. */
  afterWrite: () => Promise<void> = () => Promise.resolve();
  beforeRecover: () => Promise<void> = () => Promise.resolve();
  /** Reports the next batch as refused for lack of space; it shows when the kv is reopened. */
  hidesNext = false;
  /** What a shared log would say. */
  isLogFull = false;
  /** Called before every operation of the disk. */
  beforeDisk: (operation: SimDiskOperation) => Promise<void> = () => Promise.resolve();
  /** Called when the kv is asked for a single key. */
  onGet: (key: string) => void = () => {};
  recoveries = 0;
  disk: SimDisk;
  readonly #options: EngineWorldOptions;
  #life = 0;
  #hidden: readonly KvWrite[] = [];

  constructor(options: EngineWorldOptions = {}) {
    this.#options = options;
    this.random = new SimRandom(options.seed ?? 1);
    this.disk = new SimDisk({
      random: () => this.random.next(),
      latency: (operation) => this.beforeDisk(operation),
    });
  }

  async open(): Promise<Engine> {
    const { clock, disk } = this;
    const options = this.#options;
    this.#life += 1;
    await new MemoryKv({ contents: this.contents }).write(this.#takeHidden());
    const log = await LocalLog.open(disk, {
      durability: options.durability ?? "fsync",
      segmentBytes: options.segmentBytes ?? 4096,
      ...{ writer: 1, epoch: 1, shard: 0 },
      monotonicMs: () => clock.monotonicMs(),
      onSync: () => this.syncs.push(clock.monotonicMs()),
    });
    Object.defineProperty(log, "isFull", { get: () => this.isLogFull });
    return Engine.open({
      log,
      kv: this.#kv(),
      rows: things,
      derive: options.derive ?? (() => []),
      observer: {
        grouped: (batches) => this.groups.push(batches),
        flushed: (_seconds, entries) => this.flushes.push(entries),
        stateChanged: (state) => this.states.push(state),
      },
      freeBytes: () => disk.freeBytes(),
      clock,
      defer: options.defer ?? ((run) => queueMicrotask(run)),
      minFreeBytes: options.minFreeBytes ?? 0,
      flushBytes: options.flushBytes ?? 1024 * 1024,
      syncIntervalMs: options.syncIntervalMs,
    });
  }

  /** Ends the process, or takes the power away; the next `open` finds what is left. */
  crash(mode: "process" | "power"): void {
    this.#life += 1;
    this.disk = this.disk.crash(mode);
    this.beforeDisk = () => Promise.resolve();
    this.beforeWrite = () => Promise.resolve();
  }

  /** The keys of the kv without the engine's own. */
  stored(): [string, string][] {
    return [...this.contents]
      .filter(([key]) => !key.startsWith("codeq/meta/"))
      .map(([key, value]): [string, string] => {
        const end = things.isIndexKey(key) ? value.length : sealedEnd(key, value);
        return [key, end === undefined ? "damaged" : value.toString("utf8", 0, end)];
      })
      .sort();
  }

  get position(): number {
    return readPosition(new MemoryKv({ contents: this.contents }));
  }

  #takeHidden(): readonly KvWrite[] {
    const hidden = this.#hidden;
    this.#hidden = [];
    return hidden;
  }

  #kv(): MemoryKv {
    const life = this.#life;
    let isRecovering = false;
    const beforeWrite = async (): Promise<void> => {
      if (isRecovering) return;
      await this.beforeWrite();
      // The work of a process that is gone does not go on.
      if (life !== this.#life) await new Promise(() => {});
    };
    const kv = new MemoryKv({ contents: this.contents, beforeWrite });
    const write = async (batch: readonly KvWrite[]): Promise<void> => {
      if (this.hidesNext) {
        this.hidesNext = false;
        await beforeWrite();
        this.#hidden = batch;
        throw new FaultError("disk_full", "no room was left when the batch was synced");
      }
      await kv.write(batch);
      this.kvWrites.push(batch.map(({ key, value }) => (value === undefined ? `-${key}` : key)));
      await this.afterWrite();
    };
    kv.batch = () => new CollectedBatch(write);
    kv.recover = async () => {
      isRecovering = true;
      await this.beforeRecover();
      await kv.write(this.#takeHidden());
      isRecovering = false;
      this.recoveries += 1;
    };
    const get = kv.get.bind(kv);
    kv.get = (key) => {
      this.onGet(key);
      if (isRecovering) throw new FaultError("disk_full", "the kv is being reopened");
      return get(key);
    };
    return kv;
  }
}

/** Everything in the range of all keys that tests use, as text. */
export async function everything(engine: Engine, limit = 100_000): Promise<[string, string][]> {
  const entries = await engine.scan({ after: "", before: "~" }, limit);
  return entries
    .filter(([key]) => !key.startsWith("codeq/meta/"))
    .map(([key, value]) => [key, value.toString()]);
}

/** How a promise stands after everything that needs no timer has happened. */
export async function standing(promise: Promise<unknown>): Promise<string> {
  await settle();
  const pending = Symbol("pending");
  try {
    const value = await Promise.race([promise, Promise.resolve(pending)]);
    return value === pending ? "pending" : "done";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
