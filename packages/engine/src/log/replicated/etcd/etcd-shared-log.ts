/**
 * The shared log in etcd. An append is one transaction that compares the head with the slot before, so that it is
 * kept in its slot or not at all, and that answers what is in the slot otherwise. Answers about the end of the log
 * need a majority of the servers: they are never older than an acknowledged append. Records are read from one server,
 * which may be behind; if the log is known to be longer, a majority is asked.
 */
import * as messages from "@codeq/protocol/etcd";
import { textOf } from "@codeq/protocol/wire";
import type { EngineClock } from "../../../engine-options.ts";
import { FaultError } from "../../../fault.ts";
import { behind } from "../../log-fault.ts";
import type { Appending, LogBounds, LogSpace, SharedLog } from "../shared-log.ts";
import { type EtcdClient, etcdMethods } from "./etcd-client.ts";
import { bytesOf, type LogKeys, slotIn, slotValue } from "./etcd-keys.ts";
import type { EtcdSpace } from "./etcd-space.ts";
import { type GrpcError, grpcStatus } from "./grpc-channel.ts";

/** The log servers are started with `max-request-bytes` of 9 MiB. */
export const recordBytesMax: number = 8 * 1024 * 1024;
const readBytesMax = 4 * 1024 * 1024;
const readRecordsMax = 256;
const appendTimeoutMinMs = 400;
/** An append that was sent before the servers elected a leader is not answered, and has to be sent again. */
const appendTimeoutMaxMs = 800;
const askTimeoutMs = 1000;
/** More in one transaction would keep appends waiting. */
const trimSlotsMax = 512;
const watchAgainMs = 100;
/** The weight of the newest record in the average size. */
const averageShare = 1 / 16;

export interface EtcdSharedLogParts {
  readonly client: EtcdClient;
  readonly space: EtcdSpace;
  readonly keys: LogKeys;
  readonly name: string;
  /** The id of this node, under which its notes are stored. */
  readonly node: string;
  readonly logId: number;
  /** The revision of the write that made this log. */
  readonly revision: number;
  /** How long the log is at least. */
  readonly head: number;
  readonly clock: EngineClock;
  /** Frees the room of removed records, up to a revision. */
  readonly compact: (revision: number) => Promise<void>;
}

export class EtcdSharedLog implements SharedLog {
  onNotice: (text: string) => void = () => {};
  readonly logId: number;
  readonly recordBytesMax: number = recordBytesMax;
  readonly #parts: EtcdSharedLogParts;
  #appendTimeoutMs = appendTimeoutMinMs;
  /** The log is at least this long. */
  #headSeen: number;
  /** The last read found as many records as it may. */
  #isCut = false;
  #averageBytes = 1024;
  #endWatch: () => void = () => {};
  #isClosed = false;

  constructor(parts: EtcdSharedLogParts) {
    this.#parts = parts;
    this.logId = parts.logId;
    this.#headSeen = parts.head;
    this.#watch();
  }

  async append(record: Uint8Array, slot: number): Promise<Appending> {
    const { client, space, keys } = this.#parts;
    const why = space.refusal(record.length);
    if (why !== undefined) return { kind: "full", why };
    const request = {
      compare: [this.#isThisLog(), headCompare(keys, slot - 1, "EQUAL")],
      success: [putOp(keys.recordOf(slot), record), putOp(keys.head, slotValue(slot))],
      failure: [rangeOp(keys.head), rangeOp(keys.recordOf(slot)), rangeOp(keys.meta)],
    };
    let isCopied = false;
    const onCopy = (): void => {
      isCopied = true;
    };
    try {
      // A copy of the transaction finds the slot taken by the same bytes, or leaves it to another record.
      const call = { timeoutMs: this.#appendTimeoutMs, onCopy };
      const answer = await client.ask(etcdMethods.txn, request, call);
      this.#appendTimeoutMs = appendTimeoutMinMs;
      if (!answer.succeeded) return this.#outcomeOf(answer, record, slot);
      this.#headSeen = Math.max(this.#headSeen, slot);
      return { kind: "kept" };
    } catch (error) {
      if (error instanceof FaultError) throw error;
      const outcome = await this.#failed(error as GrpcError, record, slot);
      // The other copy may still be kept.
      return isCopied && outcome.kind === "full" ? { ...outcome, kind: "unknown" } : outcome;
    }
  }

  /** What the log says about a record that this call has not written. */
  #outcomeOf(answer: messages.TxnResponse, record: Uint8Array, slot: number): Appending {
    const [head, found, meta] = answer.responses.map(valuesOf);
    const other = this.#otherLog(meta);
    if (other?.code === "corrupt") return { kind: "lost", why: other.message };
    if (other !== undefined) return { kind: "unknown", why: other.message };
    const last = lastOf(head);
    this.#headSeen = Math.max(this.#headSeen, last);
    const [taken] = found ?? [];
    if (taken !== undefined && bytesOf(taken.value).equals(record)) return { kind: "kept" };
    if (last >= slot) return { kind: "fenced" };
    const why = `the log ends at slot ${last}, and slot ${slot - 1} was kept`;
    return { kind: "lost", why };
  }

  async #failed(error: GrpcError, record: Uint8Array, slot: number): Promise<Appending> {
    const { invalidArgument, resourceExhausted } = grpcStatus;
    if (error.status === invalidArgument) return { kind: "full", why: error.message };
    const isFull = error.status === resourceExhausted && error.message.includes("space exceeded");
    if (isFull) return await this.#refused(error.message, record, slot);
    if (error.status === grpcStatus.deadlineExceeded) {
      this.#appendTimeoutMs = Math.min(this.#appendTimeoutMs * 2, appendTimeoutMaxMs);
    }
    return { kind: "unknown", why: error.message };
  }

  /** etcd may carry out a write and refuse it afterwards for lack of space. */
  async #refused(why: string, record: Uint8Array, slot: number): Promise<Appending> {
    const { keys, space } = this.#parts;
    // There may be room by now, and etcd does not end its alarm by itself.
    space.look();
    try {
      const answer = await this.#look(rangeOp(keys.head), rangeOp(keys.recordOf(slot)));
      const [head, found] = answer;
      const [taken] = found ?? [];
      if (taken !== undefined && bytesOf(taken.value).equals(record)) return { kind: "kept" };
      return lastOf(head) >= slot ? { kind: "fenced" } : { kind: "full", why };
    } catch (error) {
      return { kind: "unknown", why: (error as Error).message };
    }
  }

  async read(slot: number): Promise<readonly Uint8Array[]> {
    const found = await this.#range(slot, true);
    if (found.length > 0 || slot > this.#headSeen) return found;
    const all = await this.#range(slot, false);
    if (all.length === 0 && slot <= this.#headSeen) await this.bounds();
    return all;
  }

  hasMore(slot: number): boolean {
    return this.#isCut || slot < this.#headSeen;
  }

  async #range(slot: number, serializable: boolean): Promise<readonly Uint8Array[]> {
    const { client, keys } = this.#parts;
    const wanted = Math.ceil(readBytesMax / this.#averageBytes);
    const limit = Math.max(1, Math.min(wanted, readRecordsMax));
    const request = {
      ...messages.newRangeRequest(),
      key: keys.recordOf(slot),
      rangeEnd: keys.recordsEnd,
      limit,
      serializable,
    };
    const { kvs } = await answered(
      client.ask(etcdMethods.range, request, { timeoutMs: askTimeoutMs }),
    );
    this.#isCut = kvs.length === limit;
    const [first] = kvs;
    if (first === undefined) return [];
    const found = keys.slotOf(first.key);
    if (found !== slot) throw behind(slot, found);
    return kvs.map(({ value }) => {
      const bytes = bytesOf(value);
      this.#averageBytes += (bytes.length - this.#averageBytes) * averageShare;
      return bytes;
    });
  }

  async bounds(): Promise<LogBounds> {
    const { keys } = this.#parts;
    const [head, records, meta] = await this.#look(
      rangeOp(keys.head),
      firstRecordOp(keys),
      rangeOp(keys.meta),
    );
    this.#assertThisLog(meta);
    const last = lastOf(head);
    this.#headSeen = Math.max(this.#headSeen, last);
    const [first] = records ?? [];
    return { first: first === undefined ? last + 1 : keys.slotOf(first.key), last };
  }

  async space(): Promise<LogSpace> {
    const { bytesMax, freeBytes } = await answered(this.#parts.space.ask());
    return { bytesMax, freeBytes };
  }

  async trim(slot: number): Promise<void> {
    const { client, keys, compact } = this.#parts;
    const { first, last } = await this.bounds();
    const keep = Math.min(slot, last);
    let from = first;
    // Also when nothing is left to remove: an earlier call may have failed before the room was free.
    do {
      const end = keys.recordOf(Math.min(from + trimSlotsMax, keep));
      const request = {
        compare: [this.#isThisLog(), headCompare(keys, keep - 1, "GREATER")],
        success: [deleteOp(keys.records, end)],
        failure: [],
      };
      const { succeeded, header } = await answered(
        client.ask(etcdMethods.txn, request, { timeoutMs: askTimeoutMs }),
      );
      // The log was replaced, and there is nothing to trim in another one.
      if (!succeeded) return;
      from += trimSlotsMax;
      if (from >= keep) await compact(Number(header?.revision ?? 0));
    } while (from < keep);
  }

  notify(text = ""): void {
    const { client, keys, node } = this.#parts;
    if (this.#isClosed) return;
    const request =
      text === ""
        ? { key: keys.news, value: slotValue(this.#headSeen) }
        : { key: keys.noteOf(node), value: text };
    client.call(etcdMethods.put, request, askTimeoutMs).catch(() => {
      // The next notice replaces a lost one.
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endWatch();
  }

  #watch(): void {
    if (this.#isClosed) return;
    const { client, keys, clock } = this.#parts;
    const value = { key: keys.news, rangeEnd: keys.notesEnd };
    const again = (): void => {
      this.#endWatch();
      this.#endWatch = clock.after(watchAgainMs, () => this.#watch());
    };
    this.#endWatch = client.stream(
      etcdMethods.watch,
      { case: "createRequest", value },
      { message: (response) => this.#watched(response, again), ended: again },
    );
  }

  #watched({ created, canceled, events }: messages.WatchResponse, again: () => void): void {
    if (canceled) {
      again();
      return;
    }
    const { keys } = this.#parts;
    // A watch does not report the records that came before it began.
    let isNew = created;
    for (const { kv } of events) {
      if (kv === undefined || kv.value.length === 0) continue;
      if (keys.isNote(kv.key)) this.onNotice(textOf(kv.value));
      if (!keys.isNews(kv.key)) continue;
      isNew = true;
      // The server that is read may be another one, which is behind.
      this.#headSeen = Math.max(this.#headSeen, slotIn(kv.value));
    }
    if (isNew) this.onNotice("");
  }

  /** Reads that a majority answers. */
  async #look(
    ...success: readonly messages.RequestOp[]
  ): Promise<readonly (readonly messages.KeyValue[])[]> {
    const request = { compare: [], success: [...success], failure: [] };
    const { client } = this.#parts;
    const answer = await answered(
      client.ask(etcdMethods.txn, request, { timeoutMs: askTimeoutMs }),
    );
    return answer.responses.map(valuesOf);
  }

  #isThisLog(): messages.Compare {
    const { keys, revision } = this.#parts;
    const target = messages.compareTarget.MOD;
    return { ...messages.newCompare(), target, key: keys.meta, modRevision: revision };
  }

  #assertThisLog(found: readonly messages.KeyValue[] | undefined): void {
    const fault = this.#otherLog(found);
    if (fault !== undefined) throw fault;
  }

  #otherLog(found: readonly messages.KeyValue[] | undefined): FaultError | undefined {
    const { name, revision, logId } = this.#parts;
    const [meta] = found ?? [];
    if (meta === undefined) return gone(name);
    if (Number(meta.modRevision) === revision) return undefined;
    return exchanged(name, { foundId: metaIn(meta.value).logId, logId });
  }
}

export interface LogMeta {
  readonly logId: number;
}

export function metaIn(value: messages.KeyValue["value"]): LogMeta {
  return JSON.parse(textOf(value)) as LogMeta;
}

export function valuesOf({ value }: messages.ResponseOp): readonly messages.KeyValue[] {
  return value?.kvs ?? [];
}

export function lastOf(head: readonly messages.KeyValue[] | undefined): number {
  const [found] = head ?? [];
  return found === undefined ? 0 : slotIn(found.value);
}

export function rangeOp(key: string | Buffer): messages.RequestOp {
  return { case: "requestRange", value: { ...messages.newRangeRequest(), key } };
}

export function firstRecordOp({ records, recordsEnd }: LogKeys): messages.RequestOp {
  const value = { ...messages.newRangeRequest(), key: records, rangeEnd: recordsEnd };
  return { case: "requestRange", value: { ...value, limit: 1, keysOnly: true } };
}

export function putOp(key: string | Buffer, value: Uint8Array | string): messages.RequestOp {
  return { case: "requestPut", value: { key, value } };
}

export function deleteOp(key: string, rangeEnd: string | Buffer): messages.RequestOp {
  return { case: "requestDeleteRange", value: { key, rangeEnd } };
}

export function headCompare(
  { head }: LogKeys,
  slot: number,
  result: keyof typeof messages.compareResult,
): messages.Compare {
  return {
    ...messages.newCompare(),
    result: messages.compareResult[result],
    target: messages.compareTarget.VALUE,
    key: head,
    value: slotValue(slot),
  };
}

/** The answer, or a fault that says what to do. */
export async function answered<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof FaultError) throw error;
    const text = `the log servers do not answer: ${(error as Error).message}`;
    const advice = "Check that a majority of the etcd members is up";
    throw new FaultError("storage_failed", `${text}. ${advice}.`, error);
  }
}

function gone(name: string): FaultError {
  const text = `log ${name} is gone: somebody removed it, or the log servers lost it`;
  const todo =
    "Every node keeps its data; remove none of it. Restore etcd, or run `codeq cluster repair`.";
  return new FaultError("storage_failed", `${text}. ${todo}`);
}

function exchanged(
  name: string,
  ids: { readonly foundId: number; readonly logId: number },
): FaultError {
  const text = `log ${name} is another log (${ids.foundId}) than this node follows (${ids.logId})`;
  const todo = "Check that etcdUrls and the data directory belong to the same cluster";
  return new FaultError("corrupt", `${text}. ${todo}.`);
}
