/** When a spec fires next, in its zone and here, and what changes of the clock do to it. */
import type { Given as GivenTo, ReplyOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { ask, callOf, tenant } from "../../api.ts";
import { time } from "../../format.ts";
import { Note, Pending, Time } from "../../parts/basics.tsx";
import { CardTable, type Column, column, title } from "../../parts/tables.tsx";
import { type Answer, useQuery } from "../../query.ts";

type Spec = Exclude<GivenTo<"POST /admin/schedules/preview">["body"], string>;
type Preview = ReplyOf<"POST /admin/schedules/preview">;
type Planned = Preview["runs"][number];

/** Far enough that a daily schedule shows both changes of the clock in a year. */
const lookedAt = 400;
const warningsMax = 4;

export const ownZone: string = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function timesOf(spec: Spec): string {
  return spec.cron ?? `every ${spec.every}${spec.offset === undefined ? "" : ` + ${spec.offset}`}`;
}

export function zoneOf({ cron, tz = "UTC" }: Spec): string {
  return cron === undefined ? "" : tz;
}

function usePreview(spec: Spec): Answer<Preview> {
  const { cron, every, offset, tz, from, until, except } = spec;
  const body = { cron, every, offset, tz, from, until, except, count: lookedAt };
  const call = callOf("POST /admin/schedules/preview", { body });
  const key = `schedule-preview:${tenant.get()}:${JSON.stringify(body)}`;
  return useQuery(key, () => ask(call), { everyMs: 30_000 });
}

interface PlannedProps {
  readonly spec: Spec;
  readonly rows: number;
}

export function PlannedRuns({ spec, rows }: PlannedProps): JSX.Element {
  const { data, error } = usePreview(spec);
  if (data === undefined || error !== undefined) return <Pending error={error} />;
  const warnings = data.runs.filter(({ note }) => note !== undefined).slice(0, warningsMax);
  return (
    <>
      <CardTable
        rows={data.runs.slice(0, rows)}
        id={({ at }) => at}
        columns={columnsOf(spec)}
        nothing={<p class="panel-body muted">It never fires from now on.</p>}
      />
      {warnings.map(({ at, local, note }) => (
        <Note key={at} icon="warn" tone="warn">
          <b>{local}</b>: {note}.
        </Note>
      ))}
    </>
  );
}

function columnsOf(spec: Spec): readonly Column<Planned>[] {
  return [
    title(
      `In ${spec.tz ?? "UTC"}`,
      ({ local, offset }) => (
        <>
          {local} <span class="faint">{offset}</span>
        </>
      ),
      "full",
    ),
    column("Here", ({ at }) => time(Date.parse(at), "local", Date.now())),
    column("When", ({ at }) => <Time at={at} />),
  ];
}
