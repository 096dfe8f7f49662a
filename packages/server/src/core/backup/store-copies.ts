/** Copies of whole stores for another kind of server: replicas of a cluster, or stores of a server alone. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  copyEntries,
  endedKey,
  FaultError,
  goOnWith,
  type Kv,
  LevelKv,
  makeDurable,
  openFiles,
  writeEntries,
} from "@codeq/engine";
import { isControlKey } from "../control/control-records.ts";
import { formatEntry, type StoreKind } from "../store/format.ts";
import { drawIdentity } from "../store/identity.ts";
import { formatKey } from "../store/keys.ts";

/** What is no task, everything else, or both. */
export type StorePart = "control" | "tasks" | "all";

export interface CopiedStore {
  readonly entries: number;
  /** Of the log, or of the store. */
  readonly identity: number;
}

/** Whoever has nothing needs a copy, since the first record of the log is behind this slot. */
const slotBefore = 1;
/** The first slot of a log that goes on with such a replica. */
export const slotOfCopies: number = slotBefore + 1;

/** A new replica with a part of a store, for a log that has yet to be made. */
export async function makeReplica(
  directory: string,
  from: Kv,
  part: StorePart,
): Promise<CopiedStore> {
  const identity = drawIdentity();
  await using to = await openKv(directory);
  const entries = await copyEntries(from, to.kv, wantedOf(part));
  await goOnWith(to.kv, { logId: identity, slot: slotBefore });
  await makeDurable(to.kv);
  return { entries, identity };
}

/** A new store with everything that replicas have whose logs have ended. */
export async function makeStore(
  directory: string,
  replicas: readonly string[],
  kind: StoreKind,
): Promise<CopiedStore> {
  mkdirSync(directory, { recursive: true, mode: 0o750 });
  const files = await openFiles(directory, {
    durability: "fsync",
    monotonicMs: () => performance.now(),
    newIdentity: drawIdentity,
    onRepair: () => {},
  });
  let entries = 0;
  try {
    for (const replica of replicas) {
      await using from = await openKv(replica);
      if (from.kv.get(endedKey) === undefined) throw notEnded(replica);
      entries += await copyEntries(from.kv, files.kv, () => true);
    }
    await writeEntries(files.kv, [formatEntry(kind)]);
    await makeDurable(files.kv);
  } finally {
    await files.log.close();
    await files.kv.close();
  }
  return { entries, identity: files.identity };
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
