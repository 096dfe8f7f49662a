/**
 * The entries of unique keys follow from the changes of tasks and are written in the same log record: whatever ends a
 * task also gives its key back, and releases the task that waits for it.
 */
import {
  type Change,
  changeOf,
  holdsKey,
  queueOf,
  released,
  type Task,
  type UniqueEntry,
} from "@codeq/queue";
import { type UniqueName, uniqueNameOf, writesOfUnique } from "../records/unique-record.ts";
import type { RecordWrite, Store } from "../store/store.ts";

interface Parts {
  readonly store: Pick<Store, "unique" | "task" | "onKeptKey">;
  readonly nowMs: number;
  readonly nextSequence: () => number;
}

interface Followed {
  readonly changes: readonly Change[];
  readonly writes: readonly RecordWrite[];
}

interface Slot {
  readonly name: UniqueName;
  entry: UniqueEntry | undefined;
}

export function isOfUnique({ before, after }: Change): boolean {
  return (before ?? after)?.unique !== undefined;
}

/** The changes with those that follow from them, and the entries of their keys. */
export function followUnique(given: readonly Change[], parts: Parts): Followed {
  const changes = given.map((change) =>
    hasMoved(change) ? withoutKey(change, parts) : ended(change),
  );
  const slots = new Map<string, Slot>();
  const over = changes.flatMap(({ before, after }) =>
    before !== undefined && holdsKey(before) && !(after !== undefined && holdsKey(after))
      ? [before]
      : [],
  );
  // Before the holders, so that nothing is released that has ended as well.
  for (const task of over) {
    const slot = slotOf(slots, task, parts);
    if (slot.entry?.waiting === task.id) slot.entry = { ...slot.entry, waiting: "" };
  }
  for (const task of over) {
    const slot = slotOf(slots, task, parts);
    if (slot.entry?.holder === task.id) slot.entry = afterHolder(slot.entry, changes, parts);
  }
  for (const change of [...changes]) take(slots, change, parts);
  for (const [at, change] of changes.entries()) changes[at] = keptWithKey(slots, change, parts);
  const writes: RecordWrite[] = [];
  for (const { name, entry } of slots.values()) {
    writes.push(...writesOfUnique(name, entry));
    if (entry?.hasEnded === true) parts.store.onKeptKey(entry.untilMs);
  }
  return { changes, writes };
}

/** A task that has ended is kept as long as its key is held, because later requests are answered with it. */
function keptWithKey(slots: Map<string, Slot>, change: Change, parts: Parts): Change {
  const { after } = change;
  if (after?.unique === undefined || after.unique.forMs === 0) return change;
  const { place } = after;
  if (place.in !== "done" && place.in !== "dead") return change;
  const { entry } = slotOf(slots, after, parts);
  if (entry?.holder !== after.id || place.expiresMs === undefined) return change;
  const expiresMs = Math.max(place.expiresMs, entry.untilMs);
  return { ...change, after: { ...after, place: { ...place, expiresMs } } };
}

/** A new or replayed task takes the key, or waits for it. */
function take(slots: Map<string, Slot>, { before, after }: Change, parts: Parts): void {
  if (after === undefined || !holdsKey(after)) return;
  if (before !== undefined && holdsKey(before)) return;
  const slot = slotOf(slots, after, parts);
  const isHeld = after.unique?.isHeld === true;
  slot.entry =
    isHeld && slot.entry !== undefined
      ? { ...slot.entry, waiting: after.id }
      : entryOf(after, parts.nowMs);
}

function slotOf(slots: Map<string, Slot>, task: Task, { store }: Parts): Slot {
  const name = uniqueNameOf(task) as UniqueName;
  const key = JSON.stringify([name.tenantId, name.queue, name.key]);
  const slot = slots.get(key) ?? { name, entry: store.unique(name) };
  slots.set(key, slot);
  return slot;
}

/** The task that waited holds the key now; without one, the key is free when its time is over. */
function afterHolder(
  entry: UniqueEntry,
  changes: Change[],
  { store, nowMs, nextSequence }: Parts,
): UniqueEntry | undefined {
  const { waiting } = entry;
  const at = changes.findIndex(({ after }) => waiting !== "" && after?.id === waiting);
  const changed = changes[at];
  const task = changed?.after ?? (waiting === "" ? undefined : store.task(waiting));
  if (task === undefined) {
    return entry.untilMs > nowMs ? { ...entry, waiting: "", hasEnded: true } : undefined;
  }
  const next = released(task, { nowMs, seq: nextSequence() });
  if (changed === undefined) changes.push(changeOf(task, next, "promoted"));
  else changes[at] = { ...changed, after: next };
  return entryOf(next, nowMs);
}

function entryOf({ id, unique, place }: Task, nowMs: number): UniqueEntry {
  const { forMs = 0 } = unique ?? {};
  const startMs = place.in === "delayed" ? Math.max(place.dueMs, nowMs) : nowMs;
  const untilMs = forMs === 0 ? 0 : startMs + forMs;
  return { holder: id, waiting: "", untilMs, hasEnded: false };
}

/** A unique key belongs to a queue. */
function hasMoved({ before, after }: Change): boolean {
  if (before?.unique === undefined || after === undefined) return false;
  return queueOf(before.command) !== queueOf(after.command);
}

function withoutKey(change: Change, { nowMs, nextSequence }: Parts): Change {
  const after = released(change.after as Task, { nowMs, seq: nextSequence() });
  return { ...change, after: { ...after, unique: undefined } };
}

/** A task that has ended waits for nothing, also when it is replayed. */
function ended(change: Change): Change {
  const { after } = change;
  if (after?.unique?.isHeld !== true || holdsKey(after)) return change;
  return { ...change, after: { ...after, unique: { ...after.unique, isHeld: false } } };
}
