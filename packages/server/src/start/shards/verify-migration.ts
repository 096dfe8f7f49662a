/**
 * Compares new stores with the old ones, both read from their files: every task, payload, result,
 * idempotency key and other record is in the right store, and the counts of the new stores match the
 * contents of the old ones. Throws at the first difference.
 */
import { FaultError } from "@codeq/engine";
import {
  type MovedEntry,
  type MovedKey,
  type ShardData,
  Sums,
} from "../../core/backup/shard-data.ts";
import type { NewStores } from "./migration-stores.ts";

interface Found {
  readonly sums: Sums;
  keys: number;
  /** What has no rule of its own, with what was put in quarantine by the change. */
  others: number;
  setAside: number;
}

export async function verifyMigration(
  old: AsyncIterable<readonly [number: number, data: ShardData]>,
  targets: NewStores,
  onVerified: (tasks: number) => void,
): Promise<{ readonly tasks: number; readonly setAside: number }> {
  for (const store of targets.all) {
    await store.flush();
    await store.scrub();
  }
  const found: Found = { sums: new Sums(), keys: 0, others: 0, setAside: 0 };
  for await (const [, data] of old) {
    await compareTasks(data, targets, found, onVerified);
    await compareRecords(data, targets, found);
    await compareShared(data, targets, found);
  }
  await compareSums(targets, found);
  return { tasks: found.sums.tasks, setAside: found.setAside };
}

async function compareTasks(
  data: ShardData,
  targets: NewStores,
  found: Found,
  onVerified: (tasks: number) => void,
): Promise<void> {
  for await (const { items, damaged } of data.tasks("")) {
    noteDamaged(data, damaged, found);
    for (const [store, tasks] of Map.groupBy(items, ({ task }) => targets.ofTask(task.id))) {
      await store.readAhead(tasks);
      for (const moved of tasks) {
        if (!store.isSameTask(moved)) throw different(`task ${moved.task.id}`);
        found.sums.addTask(moved.task);
      }
    }
    onVerified(found.sums.tasks);
  }
}

async function compareRecords(data: ShardData, targets: NewStores, found: Found): Promise<void> {
  for await (const { items, damaged } of data.idempotencyKeys()) {
    noteDamaged(data, damaged, found);
    for (const moved of items) found.keys += compareKey(targets, moved);
  }
  for await (const { items, damaged } of data.entries()) {
    noteDamaged(data, damaged, found);
    found.others += items.length;
    for (const entry of items) {
      if (!targets.of(entry.key).isSameEntry(entry)) throw different(`the record ${entry.key}`);
    }
  }
}

/** Of several shards that said something else, one was followed. */
async function compareShared(data: ShardData, targets: NewStores, found: Found): Promise<void> {
  for await (const { items, damaged } of data.sharedEntries()) {
    noteDamaged(data, damaged, found);
    for (const entry of items) {
      const isEverywhere = targets.shards.every((store) => store.hasEntry(entry));
      if (!isEverywhere) throw different(`the record ${entry.key}`);
    }
  }
}

/** A copy may be in quarantine already. */
function noteDamaged(data: ShardData, damaged: readonly MovedEntry[], found: Found): void {
  found.setAside += damaged.length;
  found.others += damaged.filter((entry) => !data.isSetAside(entry)).length;
}

/** In how many stores the key is. */
function compareKey(targets: NewStores, moved: MovedKey): number {
  const stores = targets.ofKey(moved);
  for (const store of stores) {
    if (!store.isSameKey(moved)) throw different(`the idempotency key of ${moved.entry.taskId}`);
  }
  return stores.size;
}

async function compareSums(targets: NewStores, found: Found): Promise<void> {
  const stored = new Sums();
  const indexed = new Sums();
  let keys = 0;
  let others = 0;
  for (const store of targets.all) {
    await store.addStored(stored);
    await store.addIndexed(indexed);
    const counted = await store.countEntries();
    keys += counted.keys;
    others += counted.others;
  }
  const { sums } = found;
  assertSame("number of tasks", sums.tasks, stored.tasks);
  assertSame("number of retention keys", sums.retention, stored.retention);
  assertSame("number of idempotency keys", found.keys, keys);
  assertSame("number of other records", found.others, others);
  assertSame("counts of the queues", asText(sums.places), asText(stored.places));
  assertSame("keys of the queues", asText(sums.keyed), asText(indexed.places));
  assertSame("stored bytes of the tenants", asText(sums.storedBytes), asText(stored.storedBytes));
}

function asText(map: ReadonlyMap<string, unknown>): string {
  return JSON.stringify([...map].sort(([one], [other]) => (one < other ? -1 : 1)));
}

function assertSame(what: string, expected: number | string, found: number | string): void {
  if (expected === found) return;
  const numbers = typeof expected === "number" ? `: ${expected} and ${found}` : "";
  throw different(`the ${what}${numbers}`);
}

function different(what: string): FaultError {
  return new FaultError(
    "corrupt",
    `${what} differ(s) between the old and the new stores. The data is unchanged. ` +
      "Run `codeq shards migrate --abort` and keep a copy of the data directory.",
  );
}
