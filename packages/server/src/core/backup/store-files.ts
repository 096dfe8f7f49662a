/** Whole stores without a server: a store that is read to be copied, and new stores that are filled. */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  continueWithLog,
  Engine,
  type EngineOptions,
  endedKey,
  entriesOf,
  FaultError,
  type Kv,
  KvFiller,
  LevelKv,
  type OpenedFiles,
  openFiles,
  positionKey,
  sealed,
} from "@codeq/engine";
import { isControlKey } from "../control/control-records.ts";
import { deriveCounts } from "../records/counts.ts";
import { checkFormat, formatEntry, readKind, type StoreKind } from "../store/format.ts";
import { formatKey } from "../store/keys.ts";
import { writeKindFile } from "../store/kind-file.ts";
import { taskRows } from "../store/task-rows.ts";

/** A store whose kv has everything that its log has. */
export interface FlushedStore extends AsyncDisposable {
  readonly kv: Kv;
  readonly kind: StoreKind;
}

type FlushedOptions = Omit<EngineOptions, "rows" | "derive" | "verify" | "observer"> & {
  /** What the store has to be; any kind without it. */
  readonly kind?: StoreKind | undefined;
};

const silent = { grouped: () => {}, flushed: () => {}, stateChanged: () => {} };

export async function openFlushed(options: FlushedOptions): Promise<FlushedStore> {
  const { kind, kv } = options;
  const engine = await Engine.open({
    ...options,
    rows: taskRows,
    derive: deriveCounts,
    observer: silent,
    verify: (get) => {
      if (kind === undefined) readKind(get);
      else checkFormat(get, kind);
    },
  });
  const close = async (): Promise<void> => engine[Symbol.asyncDispose]();
  try {
    await engine.flushNow();
    const found = readKind((key) => engine.get(key));
    if (found !== undefined) return { kv, kind: found, [Symbol.asyncDispose]: close };
    throw new FaultError("format", "the store has never been used by a server");
  } catch (error) {
    await close();
    throw error;
  }
}

/** Draws the id of a store, a log or a writer: a number that no other one has. */
export function drawId(): number {
  return 1 + randomBytes(6).readUIntBE(0, 6);
}

export interface NewStoreOptions {
  /** The size of the files of its log; default: 64 MiB. */
  readonly segmentBytes?: number | undefined;
  /** It is not filled when less than this is free. */
  readonly minFreeBytes?: number | undefined;
}

export class NewStore implements AsyncDisposable {
  readonly filler: KvFiller;
  readonly #directory: string;
  readonly #files: OpenedFiles;

  private constructor(directory: string, files: OpenedFiles, minFreeBytes: number) {
    this.#directory = directory;
    this.#files = files;
    this.filler = new KvFiller(files.kv, { freeBytes: files.freeBytes, minFreeBytes });
  }

  /** Opens a store that was finished, too. */
  static async open(directory: string, options: NewStoreOptions = {}): Promise<NewStore> {
    mkdirSync(directory, { recursive: true, mode: 0o750 });
    const files = await openFiles(directory, {
      durability: "fsync",
      monotonicMs: () => performance.now(),
      segmentBytes: options.segmentBytes,
      // Its records are counted from one again, so its backups must not continue those of the old store.
      newStoreId: drawId,
      onRepair: () => {},
    });
    return new NewStore(directory, files, options.minFreeBytes ?? 0);
  }

  get storeId(): number {
    return this.#files.storeId;
  }

  get kv(): Kv {
    return this.#files.kv;
  }

  get log(): OpenedFiles["log"] {
    return this.#files.log;
  }

  /** A server can use the store afterwards. */
  async finish(kind: StoreKind): Promise<void> {
    const [key, value] = formatEntry(kind);
    await this.filler.put(key, sealed(key, value));
    await this.filler.end();
    await this.log.sync();
    writeKindFile(this.#directory, { ...kind, identity: this.storeId });
  }

  holds(key: string, stored: Buffer): boolean {
    return this.kv.get(key)?.equals(stored) === true;
  }

  /** How many entries it has, without those that say what store it is. Throws when its files are damaged. */
  async countEntries(): Promise<number> {
    await this.kv.files?.scrub();
    let count = 0;
    for await (const entries of entriesOf(this.kv)) {
      count += entries.filter(([key]) => key !== formatKey && key !== positionKey).length;
    }
    return count;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.log.close();
    await this.kv.close();
  }
}

/** The control records, everything else, or both. */
export type StorePart = "control" | "tasks" | "all";

export interface CopiedStore {
  readonly entries: number;
  /** The id of the log, or of the store. */
  readonly storeId: number;
}

/** A node that has nothing needs a copy, since the first record of the log is behind this slot. */
const slotBefore = 1;
/** The first slot of a log that continues such a replica. */
export const slotOfCopies: number = slotBefore + 1;

/** A new replica with a part of a store, for a log that has yet to be created. */
export async function makeReplica(
  directory: string,
  from: Kv,
  part: StorePart,
): Promise<CopiedStore> {
  const storeId = drawId();
  await using to = await openKv(directory);
  const filler = new KvFiller(to.kv);
  await filler.copy(from, wantedOf(part));
  const { entries } = filler;
  await continueWithLog(filler, { logId: storeId, slot: slotBefore });
  await filler.end();
  return { entries, storeId };
}

/** A new store with everything in replicas whose logs have ended. */
export async function makeStore(
  directory: string,
  replicas: readonly string[],
  kind: StoreKind,
): Promise<CopiedStore> {
  await using store = await NewStore.open(directory);
  for (const replica of replicas) {
    await using from = await openKv(replica);
    if (from.kv.get(endedKey) === undefined) throw notEnded(replica);
    await store.filler.copy(from.kv);
  }
  const { storeId, filler } = store;
  const { entries } = filler;
  await store.finish(kind);
  return { entries, storeId };
}

function wantedOf(part: StorePart): (key: string) => boolean {
  switch (part) {
    case "all":
      return () => true;
    case "control":
      return (key) => isControlKey(key) || key === formatKey;
    case "tasks":
      return (key) => !isControlKey(key);
  }
}

async function openKv(directory: string): Promise<AsyncDisposable & { readonly kv: Kv }> {
  mkdirSync(directory, { recursive: true, mode: 0o750 });
  const kv = await LevelKv.open(join(directory, "kv"));
  return { kv, [Symbol.asyncDispose]: () => kv.close() };
}

function notEnded(replica: string): FaultError {
  return new FaultError(
    "format",
    `the log of ${replica} has not ended, so other nodes may have newer data. Start the cluster, run ` +
      "`codeq cluster end`, stop the nodes, and run this command again.",
  );
}
