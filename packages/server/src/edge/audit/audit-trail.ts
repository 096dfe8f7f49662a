/**
 * Who did what, from where, with what outcome: kept in the store as long as the configuration says, and
 * written to the log.
 *
 * - A change by an administrator is one record. The record is durable before the change is answered.
 * - Refusals, and reads of other tenants' data, can come in any number and are counted; see `AuditTally`.
 *   Unknown callers have a tally of their own, so that they cannot displace the records of known callers.
 * - Nothing here delays or fails a call: a record that cannot be stored is at least in the log.
 */

import { FaultError } from "@codeq/engine";
import type { api } from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import type { ControlStore } from "../../core/control/control-store.ts";
import type { RecordWrite } from "../../core/store/store.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import type { RandomBytes } from "../../core/task-ids.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { InputOf } from "../bind.ts";
import {
  type AuditEvent,
  type AuditRecord,
  auditIdAt,
  auditRange,
  auditRecords,
  removalsOfAudit,
  writesOfAudit,
} from "./audit-record.ts";
import { AuditTally, type Tallied } from "./audit-tally.ts";

export interface AuditTrailParts {
  readonly store: ControlStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly randomBytes: RandomBytes;
  /** 0 keeps records forever. */
  readonly retentionMs: number;
}

/** A record that is committed together with the change that it describes. */
export interface AuditEntry {
  readonly writes: readonly RecordWrite[];
  /** Writes the log line; called when the writes are durable. */
  readonly log: () => void;
}

export interface AuditQuery extends InputOf<typeof api.audit.listAudit> {
  /** Undefined for all of them. */
  readonly tenantId: TenantId | undefined;
}

export interface AuditPage {
  readonly records: readonly AuditRecord[];
  /** Where the next page begins; undefined after the last page. */
  readonly next: string | undefined;
}

const unknownCallers = { perMinuteMax: 100, perHourMax: 1000 };
const known = { perMinuteMax: 1000, perHourMax: 10_000 };
/** The most records that one request reads, however few of them match. */
const lookedAtMax = 5000;
const pieceEntries = 500;
const hourMs = 60 * 60 * 1000;

export class AuditTrail implements AsyncDisposable {
  readonly #parts: AuditTrailParts;
  readonly #tallies: readonly [unknownCallers: AuditTally, known: AuditTally];
  /** Makes ids of the same millisecond unique, also across restarts. */
  readonly #run: string;
  #number = 0xffff_ffff;
  /** When to delete old records; undefined if there are no records. */
  #deleteAtMs: number | undefined = 0;
  #deletedTo = "";
  /** Called when new work is scheduled. */
  onPlanned: () => void = () => {};

  constructor(parts: AuditTrailParts) {
    this.#parts = parts;
    const bytes = Buffer.alloc(4);
    parts.randomBytes(bytes);
    this.#run = bytes.toString("hex");
    const common = { clock: parts.clock, idAt: (ms: number) => this.#idAt(ms) };
    this.#tallies = [
      new AuditTally({ ...common, ...unknownCallers, others: others("other_strangers") }),
      new AuditTally({ ...common, ...known, others: others("other_refusals") }),
    ];
  }

  /** For a change that commits the record itself. */
  entry(event: AuditEvent): AuditEntry {
    const record = this.#recordOf(event);
    return {
      writes: writesOfAudit(record),
      log: () => {
        this.#log(record);
        this.#planDeletion();
      },
    };
  }

  /** Resolves when the record is durable or could not be stored. */
  async record(event: AuditEvent): Promise<void> {
    const record = this.#recordOf(event);
    this.#log(record);
    try {
      await this.#parts.store.commit(writesOfAudit(record));
      this.#planDeletion();
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      this.#parts.logger.warn("an audit record could not be stored", { fault: error.code });
    }
  }

  /** Counts an event that may be frequent. Cheap: nothing is written. */
  tally(event: AuditEvent): void {
    const [ofUnknown, ofKnown] = this.#tallies;
    const tally = event.subject === "" ? ofUnknown : ofKnown;
    const begun = tally.add(event);
    if (begun === undefined) return;
    this.#log(begun);
    this.onPlanned();
  }

  /** When counted events have to be written, on the monotonic clock. */
  get writeAtMs(): number | undefined {
    const due = this.#tallies.map(({ dueMs }) => dueMs).filter((ms) => ms !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  async writeTallies(all = false): Promise<void> {
    const due: Tallied[] = [];
    for (const tally of this.#tallies) {
      const grown = all || tally.isOver;
      const some = tally.due(grown);
      due.push(...some);
      if (grown) for (const each of some) this.#logGrown(each);
    }
    const written = due.map(({ record }) => record);
    if (due.length > 0) {
      await this.#parts.store.commit(written.flatMap(writesOfAudit));
      this.#planDeletion();
    }
    for (const [at, tallied] of due.entries()) {
      tallied.writtenCount = (written[at] as AuditRecord).count;
    }
    for (const tally of this.#tallies) tally.settle();
  }

  /** The newest first. A page may have fewer records than asked for, and still not be the last. */
  async list(query: AuditQuery): Promise<AuditPage> {
    const { records: kept } = this.#parts.store;
    let { after } = query;
    const records: AuditRecord[] = [];
    for (let lookedAt = 0; lookedAt < lookedAtMax; ) {
      const ids = await kept.names(auditRange({ ...query, after }), pieceEntries);
      for (const id of ids) {
        if (records.length === query.limit) return { records, next: after };
        const record = kept.get(auditRecords, id);
        if (record !== undefined && isWanted(record, query)) records.push(record);
        after = id;
      }
      lookedAt += ids.length;
      if (ids.length < pieceEntries) return { records, next: undefined };
    }
    return { records, next: after };
  }

  /** When to delete old records, on the monotonic clock. */
  get deleteAtMs(): number | undefined {
    const { retentionMs, store } = this.#parts;
    return retentionMs === 0 || !store.isInCharge ? undefined : this.#deleteAtMs;
  }

  /** Deletes a bounded number of old records. */
  async deleteOld(): Promise<void> {
    const { store, clock, retentionMs } = this.#parts;
    store.assertWritable();
    const toMs = clock.nowMs() - retentionMs;
    const { records: kept } = store;
    const ids = await kept.names(auditRange({ toMs, after: this.#deletedTo }), pieceEntries);
    const records = ids
      .map((id) => kept.get(auditRecords, id))
      .filter((record) => record !== undefined);
    if (records.length > 0) await store.commit(records.flatMap(removalsOfAudit));
    if (ids.length === pieceEntries) {
      // A record that cannot be read stays, and is not read again at each run.
      this.#deletedTo = ids.at(-1) as string;
      return;
    }
    this.#deletedTo = "";
    this.#deleteAtMs = undefined;
    // A record that is written meanwhile schedules the next run itself.
    if ((await kept.names(auditRange({ after: "" }), 1)).length > 0) this.#planDeletion();
  }

  /** Writes the counted events; they are dropped if the storage accepts no writes. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.writeTallies(true);
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
    }
  }

  #recordOf(event: AuditEvent): AuditRecord {
    const atMs = this.#parts.clock.nowMs();
    return { ...event, id: this.#idAt(atMs), atMs, lastMs: atMs, count: 1 };
  }

  #idAt(ms: number): string {
    this.#number = this.#number === 0 ? 0xffff_ffff : this.#number - 1;
    return auditIdAt(ms, this.#number.toString(16).padStart(8, "0") + this.#run);
  }

  #planDeletion(): void {
    if (this.#deleteAtMs !== undefined) return;
    const { clock, retentionMs } = this.#parts;
    this.#deleteAtMs = clock.monotonicMs() + Math.min(hourMs, retentionMs);
    this.onPlanned();
  }

  /** Logs a count once, also when a full disk makes the write repeat. */
  #logGrown(tallied: Tallied): void {
    if (tallied.loggedCount === tallied.record.count) return;
    tallied.loggedCount = tallied.record.count;
    this.#log(tallied.record);
  }

  #log(record: AuditRecord): void {
    const { id: _, atMs, lastMs: __, ...fields } = record;
    const written = Object.entries(fields).filter(([, value]) => value !== "");
    const at = new Date(atMs).toISOString();
    this.#parts.logger.info("audit", { at, ...Object.fromEntries(written) });
  }
}

function isWanted(record: AuditRecord, { action, outcome }: AuditQuery): boolean {
  if (action !== undefined && record.action !== action) return false;
  return outcome === undefined || record.outcome === outcome;
}

function others(action: string): AuditEvent {
  const detail = "too many different callers";
  return {
    action,
    target: "",
    detail,
    outcome: "refused",
    code: "",
    tenantId: "" as TenantId,
    subject: "",
    homeTenantId: "",
    issuedBy: "",
    apiKeyId: "",
    address: "",
    requestId: "",
  };
}

/** Writes the audit records of counted events: new ones soon, repeated ones at the end of the minute. */
export function writeAudit(audit: AuditTrail): Job {
  return {
    name: "write-audit",
    nextMs: () => audit.writeAtMs,
    runOnce: () => audit.writeTallies(),
  };
}

/** Deletes audit records whose retention has ended, by the hour. */
export function deleteOldAudit(audit: AuditTrail): Job {
  return {
    name: "delete-old-audit",
    nextMs: () => audit.deleteAtMs,
    runOnce: () => audit.deleteOld(),
  };
}
