/**
 * What the log says: every record that was handed to it, as keys, tasks and transitions, in order.
 * It is the model that the store is compared with and the history that the checkers read. A record
 * that was not kept is taken out again, so the ledger always stands where the log stands.
 */
import { queueOf, type Task, type TaskId } from "@codeq/queue";
import { decodeBody, opKinds } from "../../packages/engine/src/batch-codec.ts";
import { decodeTask, resultIn } from "../../packages/server/src/store/task-codec.ts";

export type EventKind =
  | "create"
  | "promote"
  | "claim"
  | "extend"
  | "finish"
  | "comeback"
  | "bury"
  | "remove"
  | "other";

/** One change of one task. */
export interface LedgerEvent {
  readonly kind: EventKind;
  readonly id: TaskId;
  readonly before: Task | undefined;
  readonly after: Task | undefined;
  readonly record: LedgerRecord;
}

export interface LedgerRecord {
  readonly index: number;
  /** When it was handed to the log, on the world's monotonic clock. */
  readonly atMs: number;
  readonly wallMs: number;
  readonly events: LedgerEvent[];
  readonly undo: (() => void)[];
  /** When the log answered that it is as durable as the mode promises. */
  durableMs: number | undefined;
}

/** One state of a task and the record that brought it. */
export interface Version {
  readonly record: LedgerRecord;
  readonly task: Task | undefined;
}

const taskPrefix = "codeq/tasks/";

export class Ledger {
  readonly keys: Map<string, string> = new Map();
  readonly tasks: Map<TaskId, Task> = new Map();
  readonly versions: Map<TaskId, Version[]> = new Map();
  /** In the order of their creation; also of those that are gone. */
  readonly bornOrder: Map<TaskId, number> = new Map();
  /** How many payloads and results have this text. */
  readonly texts: Map<string, number> = new Map();
  readonly records: LedgerRecord[] = [];
  #firstIndex = 1;
  #born = 0;

  get lastIndex(): number {
    return this.#firstIndex + this.records.length - 1;
  }

  find(index: number): LedgerRecord | undefined {
    return this.records[index - this.#firstIndex];
  }

  /** Calls `onEvent` for every transition, before the ledger shows it. */
  append(
    at: { readonly index: number; readonly atMs: number; readonly wallMs: number },
    body: Buffer,
    onEvent: (event: LedgerEvent) => void,
  ): LedgerRecord {
    if (at.index !== this.lastIndex + 1) {
      throw new Error(`record ${at.index} does not follow ${this.lastIndex}`);
    }
    const record: LedgerRecord = { ...at, events: [], undo: [], durableMs: undefined };
    this.records.push(record);
    for (const { kind, key, value } of decodeBody(Buffer.from(body))) {
      const text =
        kind === opKinds.delete ? undefined : value.buffer.toString("utf8", value.start, value.end);
      if (key.startsWith(taskPrefix)) this.#changeTask(record, { key, text, onEvent });
      this.#setKey(record, key, text);
    }
    return record;
  }

  /** Takes out the records behind `index`, newest first, and returns them. */
  rewindTo(index: number): LedgerRecord[] {
    const gone: LedgerRecord[] = [];
    while (this.lastIndex > index) {
      const record = this.records.pop();
      if (record === undefined) break;
      for (const undo of record.undo.reverse()) undo();
      gone.push(record);
    }
    return gone;
  }

  #setKey(record: LedgerRecord, key: string, text: string | undefined): void {
    const before = this.keys.get(key);
    record.undo.push(() => {
      if (before === undefined) this.keys.delete(key);
      else this.keys.set(key, before);
    });
    if (text === undefined) this.keys.delete(key);
    else this.keys.set(key, text);
    for (const each of textsOf(key, text)) {
      this.#countText(each, 1);
      record.undo.push(() => this.#countText(each, -1));
    }
  }

  #countText(text: string, by: number): void {
    const count = (this.texts.get(text) ?? 0) + by;
    if (count === 0) this.texts.delete(text);
    else this.texts.set(text, count);
  }

  #changeTask(
    record: LedgerRecord,
    change: {
      readonly key: string;
      readonly text: string | undefined;
      readonly onEvent: (event: LedgerEvent) => void;
    },
  ): void {
    const id = change.key.slice(taskPrefix.length) as TaskId;
    const before = this.tasks.get(id);
    const after = change.text === undefined ? undefined : decodeTask(Buffer.from(change.text));
    const event: LedgerEvent = { kind: kindOf(before, after), id, before, after, record };
    record.events.push(event);
    change.onEvent(event);
    const versions = this.versions.get(id) ?? [];
    this.versions.set(id, versions);
    versions.push({ record, task: after });
    if (!this.bornOrder.has(id)) this.bornOrder.set(id, ++this.#born);
    record.undo.push(() => {
      versions.pop();
      if (before === undefined) this.tasks.delete(id);
      else this.tasks.set(id, before);
    });
    if (after === undefined) this.tasks.delete(id);
    else this.tasks.set(id, after);
  }
}

/** What a producer or a worker wrote, as it wrote it. */
function textsOf(key: string, text: string | undefined): string[] {
  if (text === undefined) return [];
  if (key.startsWith("codeq/payload/")) return [text];
  if (key.startsWith("codeq/results/")) return resultTexts(text);
  if (!key.startsWith(taskPrefix)) return [];
  return [decodeTask(text)?.payload ?? "", ...resultTexts(resultIn(text) ?? "[]")];
}

function resultTexts(encoded: string): string[] {
  const [, , resultJson, error] = JSON.parse(encoded) as string[];
  return [resultJson ?? "", error ?? ""];
}

function kindOf(before: Task | undefined, after: Task | undefined): EventKind {
  if (after === undefined) return "remove";
  if (before === undefined) return "create";
  const move = `${before.place.in}-${after.place.in}`;
  return kinds.get(move) ?? "other";
}

const kinds: ReadonlyMap<string, EventKind> = new Map([
  ["delayed-ready", "promote"],
  ["ready-leased", "claim"],
  ["leased-leased", "extend"],
  ["leased-done", "finish"],
  ["leased-ready", "comeback"],
  ["leased-delayed", "comeback"],
  ["leased-dead", "bury"],
]);

/** Names the bucket in which tasks are first in, first out. */
export function bucketOf(task: Task): string {
  return `${task.tenantId}/${queueOf(task.command)}/${task.priority}`;
}

export function isTerminal(task: Task): boolean {
  return task.place.in === "done" || task.place.in === "dead";
}
