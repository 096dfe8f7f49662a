/** What a person wants to know about an instant at which a schedule fires. */
import type { KeptOf, PlannedRun } from "@codeq/protocol/api";
import {
  compileSpec,
  instantOf,
  parseCron,
  type Spec,
  type SpecText,
  type Zone,
} from "@codeq/queue";
import { Zones } from "../../core/zones.ts";

type Planned = KeptOf<typeof PlannedRun>;

export interface ReadSpec {
  readonly ok: true;
  readonly spec: Spec;
  readonly zone: Zone;
}

/** A spec that cannot be used, and why. */
interface WrongSpec {
  readonly ok: false;
  readonly field: "tz" | "cron" | "every" | "except";
  readonly why: string;
}

export function readSpec(zones: Zones, text: SpecText): ReadSpec | WrongSpec {
  const zone = zones.find(text.tz);
  if (zone === undefined) {
    const why = `${JSON.stringify(text.tz)} is no IANA time zone; write for example "Europe/Paris" or "UTC"`;
    return { ok: false, field: "tz", why };
  }
  const { cron, every, offset, tz, fromMs, untilMs, except } = text;
  const spec = compileSpec({ cron, every, offset, tz, fromMs, untilMs, except }, zone);
  if (spec.ok) return { ok: true, spec: spec.value, zone };
  const { field = cron === "" && every !== "" ? "every" : "cron", why } = spec;
  return { ok: false, field, why };
}

/** The next instants of a spec, for a command line without a server. */
export function plannedRuns(
  text: SpecText,
  { afterMs, count }: { readonly afterMs: number; readonly count: number },
): { readonly ok: true; readonly runs: readonly Planned[] } | WrongSpec {
  const read = readSpec(new Zones(), text);
  return read.ok ? { ok: true, runs: nextRuns(read, text.cron, { afterMs, count }).runs } : read;
}

export function nextRuns(
  { spec, zone }: ReadSpec,
  cron: string,
  { afterMs, count }: { readonly afterMs: number; readonly count: number },
): { readonly runs: readonly Planned[]; readonly hasMore: boolean } {
  const runs: Planned[] = [];
  let at = spec.next(afterMs);
  for (; at !== undefined && runs.length < count; at = spec.next(at)) {
    runs.push(plannedRun(cron, zone, at));
  }
  return { runs, hasMore: at !== undefined };
}

const minuteMs = 60_000;
const hourMs = 3_600_000;

function plannedRun(cron: string, zone: Zone, atMs: number): Planned {
  const offsetMs = zone.offsetMs(atMs);
  const note = noteOf(cron, zone, atMs);
  return { atMs, local: localText(atMs + offsetMs), offset: offsetText(offsetMs), ...note };
}

/** Only expressions of local times have something to say about changes of the clock. */
function noteOf(cron: string, zone: Zone, atMs: number): { readonly note?: string } {
  const parsed = cron === "" ? undefined : parseCron(cron);
  if (parsed?.ok !== true) return {};
  const offsetMs = zone.offsetMs(atMs);
  const beforeMs = zone.offsetMs(atMs - 1);
  if (offsetMs > beforeMs && !parsed.value.isRealTime) {
    const from = localText(atMs + beforeMs).slice(-5);
    return {
      note: `clocks are set forward: local times from ${from} on are missing; this is the first instant after`,
    };
  }
  const firstMs = instantOf(zone, atMs + offsetMs);
  const isSecondPass = firstMs < atMs;
  const laterMs = zone.nextChange(atMs, atMs + 3 * hourMs);
  const backMs = laterMs === undefined ? 0 : offsetMs - zone.offsetMs(laterMs);
  const isRepeated = laterMs !== undefined && backMs > 0 && atMs + backMs >= laterMs;
  if (isSecondPass) return { note: "clocks were set back: this local time comes a second time" };
  if (!isRepeated) return {};
  return {
    note: parsed.value.isRealTime
      ? "clocks are set back: this local time comes twice, and the schedule fires both times"
      : "clocks are set back: this local time comes twice, and the schedule fires the first time only",
  };
}

/** Such as `2026-03-29 03:00`, with seconds when there are some. */
export function localText(localMs: number): string {
  const text = new Date(localMs).toISOString().replace("T", " ");
  return localMs % minuteMs === 0 ? text.slice(0, 16) : text.slice(0, 19);
}

function offsetText(offsetMs: number): string {
  const minutes = Math.abs(offsetMs) / minuteMs;
  const two = (number: number): string => String(Math.floor(number)).padStart(2, "0");
  return `${offsetMs < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}
