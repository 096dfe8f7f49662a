/**
 * Events that may be frequent, such as refused callers, counted instead of written one by one.
 * The same event within a minute is one record with a count. A minute and an hour have room for so
 * many records; beyond that events are counted together in one, whatever they were.
 *
 * What is new is due a second later, so that it can be read soon; what has grown is due at the end of
 * its minute. While nothing can be written the minute goes on, so memory stays bounded too.
 */
import type { Clock } from "../../core/clock.ts";
import type { AuditEvent, AuditRecord } from "./audit-record.ts";

export interface AuditTallyParts {
  readonly clock: Clock;
  readonly perMinuteMax: number;
  readonly perHourMax: number;
  /** What stands for the events there is no room for. */
  readonly others: AuditEvent;
  readonly idAt: (ms: number) => string;
}

/** A record that grows, and how much of it was written and logged. The caller logs its first event. */
export interface Tallied {
  record: AuditRecord;
  writtenCount: number;
  loggedCount: number;
}

const soonMs = 1000;
const minuteMs = 60 * 1000;
const hourMs = 60 * minuteMs;

export class AuditTally {
  readonly #parts: AuditTallyParts;
  readonly #entries: Map<string, Tallied> = new Map();
  #minuteEndsMs = 0;
  #hourEndsMs = 0;
  #inThisHour = 0;
  /** Since when there is an entry that was never written. */
  #newSinceMs: number | undefined;

  constructor(parts: AuditTallyParts) {
    this.#parts = parts;
  }

  /** The record that begins with this event; undefined when it is one more of its kind. */
  add(event: AuditEvent): AuditRecord | undefined {
    const name = nameOf(event);
    const known = this.#entries.get(name);
    if (known !== undefined) return count(known, this.#parts.clock.nowMs());
    return this.#hasRoom() ? this.#begin(name, event) : this.#addOther();
  }

  /** When something has to be written, on the monotonic clock. */
  get dueMs(): number | undefined {
    if (this.#entries.size === 0) return undefined;
    const newMs = this.#newSinceMs ?? Number.POSITIVE_INFINITY;
    return Math.min(newMs + soonMs, this.#minuteEndsMs);
  }

  /** Whether the minute has come to its end. */
  get isOver(): boolean {
    return this.#parts.clock.monotonicMs() >= this.#minuteEndsMs;
  }

  /** What is new, or with `grown` also what has grown. */
  due(grown: boolean = this.isOver): readonly Tallied[] {
    const entries = [...this.#entries.values()];
    return grown
      ? entries.filter(({ record, writtenCount }) => record.count !== writtenCount)
      : entries.filter(({ writtenCount }) => writtenCount === 0);
  }

  /** Forgets what is over, after everything that was due has been written. */
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

/** Events are the same when all but the request is. */
function nameOf(event: AuditEvent): string {
  const { action, target, outcome, code, tenantId, subject, homeTenantId, address } = event;
  return [action, target, outcome, code, tenantId, subject, homeTenantId, address].join("\n");
}
