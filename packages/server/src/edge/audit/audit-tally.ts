/**
 * Counts events that may be frequent, such as refusals of unauthenticated clients, instead of writing each one.
 * Equal events within a minute are one record with a count. The number of records per minute and per hour is limited;
 * further events are counted together in one record.
 *
 * A new record is due after a second, so that it can be read soon; a record that has grown is due at the end of its
 * minute. While nothing can be written, the minute goes on, so memory stays bounded.
 */
import type { Clock } from "../../core/clock.ts";
import type { AuditEvent, AuditRecord } from "./audit-record.ts";

export interface AuditTallyParts {
  readonly clock: Clock;
  readonly perMinuteMax: number;
  readonly perHourMax: number;
  /** The event that stands for all events beyond the limits. */
  readonly others: AuditEvent;
  readonly idAt: (ms: number) => string;
}

/** A growing record, and how much of it was written. The caller logs its first event. */
export interface Tallied {
  record: AuditRecord;
  writtenCount: number;
  loggedCount: number;
}

const firstWriteMs = 1000;
const minuteMs = 60 * 1000;
const hourMs = 60 * minuteMs;

export class AuditTally {
  readonly #parts: AuditTallyParts;
  readonly #entries: Map<string, Tallied> = new Map();
  #minuteEndsMs = 0;
  #hourEndsMs = 0;
  #inThisHour = 0;
  /** Since when there is an entry that has not been written. */
  #newSinceMs: number | undefined;

  constructor(parts: AuditTallyParts) {
    this.#parts = parts;
  }

  /** The new record of this event; undefined if the event was added to a record. */
  add(event: AuditEvent): AuditRecord | undefined {
    const name = nameOf(event);
    const known = this.#entries.get(name);
    if (known !== undefined) return count(known, this.#parts.clock.nowMs());
    return this.#hasRoom() ? this.#begin(name, event) : this.#addOther();
  }

  /** When records have to be written, on the monotonic clock. */
  get dueMs(): number | undefined {
    if (this.#entries.size === 0) return undefined;
    const newMs = this.#newSinceMs ?? Number.POSITIVE_INFINITY;
    return Math.min(newMs + firstWriteMs, this.#minuteEndsMs);
  }

  /** Whether the minute is over. */
  get isOver(): boolean {
    return this.#parts.clock.monotonicMs() >= this.#minuteEndsMs;
  }

  /** The new records, and with `grown` also those that have grown. */
  due(grown: boolean = this.isOver): readonly Tallied[] {
    const entries = [...this.#entries.values()];
    return grown
      ? entries.filter(({ record, writtenCount }) => record.count !== writtenCount)
      : entries.filter(({ writtenCount }) => writtenCount === 0);
  }

  /** Drops the records of an ended minute, after everything that was due has been written. */
  settle(): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const entries = [...this.#entries];
    const isNew = entries.some(([, { writtenCount }]) => writtenCount === 0);
    this.#newSinceMs = isNew ? nowMs : undefined;
    if (nowMs < this.#minuteEndsMs) return;
    for (const [name, { record, writtenCount }] of entries) {
      if (record.count === writtenCount) this.#entries.delete(name);
    }
    this.#minuteEndsMs = nowMs + minuteMs;
  }

  #hasRoom(): boolean {
    const nowMs = this.#parts.clock.monotonicMs();
    if (nowMs >= this.#hourEndsMs) {
      this.#hourEndsMs = nowMs + hourMs;
      this.#inThisHour = 0;
    }
    const { perMinuteMax, perHourMax } = this.#parts;
    return this.#entries.size < perMinuteMax && this.#inThisHour < perHourMax;
  }

  #addOther(): AuditRecord | undefined {
    const known = this.#entries.get("");
    if (known !== undefined) return count(known, this.#parts.clock.nowMs());
    return this.#begin("", this.#parts.others);
  }

  #begin(name: string, event: AuditEvent): AuditRecord {
    const { clock, idAt } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (this.#entries.size === 0) this.#minuteEndsMs = nowMs + minuteMs;
    this.#newSinceMs ??= nowMs;
    this.#inThisHour += 1;
    const atMs = clock.nowMs();
    const record = { ...event, id: idAt(atMs), atMs, lastMs: atMs, count: 1 };
    this.#entries.set(name, { record, writtenCount: 0, loggedCount: 1 });
    return record;
  }
}

function count(tallied: Tallied, nowMs: number): undefined {
  const { record } = tallied;
  const lastMs = Math.max(nowMs, record.lastMs);
  tallied.record = { ...record, count: record.count + 1, lastMs };
  return undefined;
}

/** Events with the same name are counted in one record. */
function nameOf(event: AuditEvent): string {
  const { action, target, outcome, code, tenantId, subject, homeTenantId, address } = event;
  return [action, target, outcome, code, tenantId, subject, homeTenantId, address].join("\n");
}
