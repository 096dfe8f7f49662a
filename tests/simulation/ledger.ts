/**
 * What the log says: every record that was handed to it, as keys, tasks and transitions, in order.
 * It is the model that the store is compared with and the history that the checkers read. A record
 * that was not kept is taken out again, so the ledger always stands where the log stands.
 */
import { isFailure, lapsed, queueOf, type Task, type TaskId } from "@codeq/queue";
import { type DecodedOp, decodeBody, opKinds } from "../../packages/engine/src/batch-codec.ts";
import { tasksPrefix } from "../../packages/server/src/core/store/keys.ts";
import { decodeResult, readTask } from "../../packages/server/src/core/store/task-codec.ts";

export type EventKind =
  | "create"
  | "promote"
  | "claim"
  | "extend"
  | "finish"
  | "comeback"
  | "bury"
  | "replay"
  | "cancel"
  | "lapse"
  | "edit"
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

export interface LedgerListener {
  /** A task is about to change in the ledger. */
  onEvent(event: LedgerEvent): void;
  /** The record says what cannot be, given those before it. */
  onLie(finding: string): void;
}

export class Ledger {
  /** All but the records of tasks. */
  readonly keys: Map<string, Buffer> = new Map();
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

  append(
    at: { readonly index: number; readonly atMs: number; readonly wallMs: number },
    body: Buffer,
    listener: LedgerListener,
  ): LedgerRecord {
    if (at.index !== this.lastIndex + 1) {
      throw new Error(`record ${at.index} does not follow ${this.lastIndex}`);
    }
    const record: LedgerRecord = { ...at, events: [], undo: [], durableMs: undefined };
    this.records.push(record);
    for (const op of decodeBody(Buffer.from(body))) {
      if (op.kind >= opKinds.rowCreated) this.#changeTask(record, op, listener);
      else this.#setKey(record, op, listener);
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

  #setKey(record: LedgerRecord, { kind, key, value }: DecodedOp, { onLie }: LedgerListener): void {
    const before = this.keys.get(key);
    if (kind === opKinds.create && before !== undefined) onLie(`${key} is created twice`);
    if (key.startsWith(tasksPrefix)) onLie(`${key} is not written as a row`);
    record.undo.push(() => {
      if (before === undefined) this.keys.delete(key);
      else this.keys.set(key, before);
    });
    if (kind === opKinds.delete) {
      this.keys.delete(key);
      return;
    }
    const bytes = value.buffer.subarray(value.start, value.end);
    this.keys.set(key, bytes);
    this.#addTexts(record, textsOf(key, bytes));
  }

  #addTexts(record: LedgerRecord, texts: readonly string[]): void {
    for (const each of texts) {
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
    { kind, key, value }: DecodedOp,
    { onEvent, onLie }: LedgerListener,
  ): void {
    const id = key as TaskId;
    const before = this.tasks.get(id);
    if ((kind === opKinds.rowCreated) === (before !== undefined)) {
      onLie(`record ${record.index} has op ${kind} for ${id}, which is ${before?.place.in}`);
    }
    const isPatch = kind === opKinds.rowChanged;
    const after =
      kind === opKinds.rowDeleted ? undefined : readTask(value, id, isPatch ? before : undefined);
    if (kind !== opKinds.rowDeleted && after === undefined) onLie(`${id} cannot be read`);
    const event: LedgerEvent = { kind: kindOf(before, after), id, before, after, record };
    record.events.push(event);
    onEvent(event);
    const versions = this.versions.get(id) ?? [];
    this.versions.set(id, versions);
    versions.push({ record, task: after });
    if (!this.bornOrder.has(id)) this.bornOrder.set(id, ++this.#born);
    record.undo.push(() => {
      versions.pop();
      if (before === undefined) this.tasks.delete(id);
      else this.tasks.set(id, before);
    });
    if (after === undefined) {
      this.tasks.delete(id);
      return;
    }
    this.tasks.set(id, after);
    const { payload = "", error, result } = after;
    this.#addTexts(record, [payload, error, result?.json ?? ""]);
  }
}

/** What a producer or a worker wrote beside a task, as it wrote it. */
function textsOf(key: string, value: Buffer): string[] {
  if (key.startsWith("codeq/payload/")) return [value.toString("utf8")];
  return key.startsWith("codeq/results/") ? [decodeResult(value)?.json ?? ""] : [];
}

function kindOf(before: Task | undefined, after: Task | undefined): EventKind {
  if (after === undefined) return "remove";
  if (before === undefined) return "create";
  if (isFailure(before) && after.place.in === "ready") return "replay";
  const move = `${before.place.in}-${after.place.in}`;
  const kind = kinds.get(move) ?? "other";
  return kind === "cancel" && after.error === lapsed ? "lapse" : kind;
}

const kinds: ReadonlyMap<string, EventKind> = new Map([
  ["delayed-ready", "promote"],
  ["ready-leased", "claim"],
  ["leased-leased", "extend"],
  ["leased-done", "finish"],
  ["leased-ready", "comeback"],
  ["leased-delayed", "comeback"],
  ["leased-dead", "bury"],
  ["ready-done", "cancel"],
  ["delayed-done", "cancel"],
  ["ready-ready", "edit"],
  ["ready-delayed", "edit"],
  ["delayed-delayed", "edit"],
]);

/** Names the bucket in which tasks are first in, first out. */
export function bucketOf(task: Task): string {
  return `${task.tenantId}/${queueOf(task.command)}/${task.priority}`;
}

export function isTerminal(task: Task): boolean {
  return task.place.in === "done" || task.place.in === "dead";
}
