/** Schedules: when they fire next, what they did, and a new one with a preview of its times. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../../api.ts";
import { count, plural } from "../../format.ts";
import { jsonProblem } from "../../json-lines.ts";
import { withPayload } from "../../model/tasks.ts";
import { ActionDialog, openDialog } from "../../overlays/dialog.tsx";
import { Badge, Given, Nothing, PageHead, Panel, QueueLink, Time } from "../../parts/basics.tsx";
import { Act } from "../../parts/buttons.tsx";
import { PayloadField, TextField } from "../../parts/fields.tsx";
import { CardTable, type Column, column, num, title } from "../../parts/tables.tsx";
import { useAnswer } from "../../query.ts";
import { href, navigate, useLocation } from "../../router.ts";
import { sendCall } from "../../toasts.tsx";
import { ownZone, PlannedRuns, timesOf, zoneOf } from "./planned-runs.tsx";

type Schedule = ItemOf<"GET /admin/schedules">;

const shown = 200;

export function Schedules(): JSX.Element {
  const prefix = useLocation().query.get("prefix") ?? "";
  const request = callOf("GET /admin/schedules", { query: { limit: shown, prefix } });
  const { data, error } = useAnswer("schedules", request, { everyMs: 5000 });
  const first = data?.next === undefined ? "" : "the first ";
  return (
    <>
      <PageHead
        title="Schedules"
        about="A schedule creates a task again and again. Each of its times becomes one task, or a skip with its reason."
      >
        <Act class="primary" icon="plus" onClick={() => openDialog(<CreateSchedule />)}>
          Create schedule
        </Act>
      </PageHead>
      <Panel
        title="Schedules"
        id="schedules"
        note={data && first + plural(data.schedules.length, "schedule")}
        actions={
          <TextField
            label={<span class="sr">Ids that begin with</span>}
            isCode
            value={prefix}
            input={{ placeholder: "Ids that begin with…" }}
            onChange={(text) => navigate(href("/schedules", { prefix: text }), { replace: true })}
          />
        }
      >
        <CardTable
          rows={data?.schedules}
          error={error}
          id={({ id }) => id}
          columns={columns}
          nothing={
            <Nothing
              icon="delayed"
              title={prefix === "" ? "There are no schedules" : "No schedule matches"}
            >
              <p>A task that comes back needs no process of yours to create it.</p>
            </Nothing>
          }
        />
      </Panel>
    </>
  );
}

const columns: readonly Column<Schedule>[] = [
  title("Schedule", ({ id }) => (
    <a class="qname" href={scheduleHref(id)} title={id}>
      <bdi>{id}</bdi>
    </a>
  )),
  column("Queue", ({ command }) => <QueueLink name={command} />),
  column("Times", (schedule) => (
    <>
      <code>
        <Given text={timesOf(schedule)} max={80} />
      </code>{" "}
      <span class="faint">{zoneOf(schedule)}</span>
    </>
  )),
  column("Next", ({ nextAt, paused }) =>
    paused === undefined ? (
      <Time at={nextAt} none="never" />
    ) : (
      <Badge icon="pause" tone="delayed">
        Paused
      </Badge>
    ),
  ),
  num("Last", ({ lastAt }) => <Time at={lastAt} none="–" />, "faint"),
  num("Tasks", ({ fired }) => count(fired)),
  num("Skips", ({ skipped }) => count(skipsOf({ skipped }))),
  num("Live", ({ live }) => count(live)),
];

function scheduleHref(id: string): string {
  return href(`/schedules/${encodeURIComponent(id)}`);
}

export function skipsOf({ skipped }: Pick<Schedule, "skipped">): number {
  return Object.values(skipped).reduce((sum, each) => sum + each, 0);
}

function CreateSchedule(): JSX.Element {
  const [id, setId] = useState("");
  const [command, setCommand] = useState("");
  const [times, setTimes] = useState("0 9 * * MON-FRI");
  const [tz, setZone] = useState(ownZone);
  const [payload, setPayload] = useState("{}");
  const isPeriod = /^[\d.]+(ms|s|m|h|d)$/.test(times.trim());
  const spec = { ...(isPeriod ? { every: times.trim() } : { cron: times.trim() }), tz: tz.trim() };
  const call = callOf("PUT /admin/schedules/:id", {
    params: { id: id.trim() },
    query: { ifVersion: 0 },
    body: withPayload({ command: command.trim(), ...spec }, payload),
  });
  const isReady = id.trim() !== "" && command.trim() !== "" && jsonProblem(payload) === undefined;
  const run = async (): Promise<void> => {
    await sendCall(call, `Created ${id.trim()}`, "schedules");
    navigate(scheduleHref(id.trim()));
  };
  return (
    <ActionDialog
      title="Create a schedule"
      about="The client library and codeq schedules put have more settings: overlap, catch-up, exceptions."
      button="Create schedule"
      icon="plus"
      call={call}
      isReady={isReady}
      run={run}
    >
      <TextField label="Id" isCode value={id} onChange={setId} />
      <TextField label="Queue" isCode value={command} onChange={setCommand} />
      <TextField
        label="Times: a cron expression, or a period such as 15m"
        isCode
        value={times}
        onChange={setTimes}
      />
      <TextField label="Time zone" isCode value={tz} onChange={setZone} />
      <PlannedRuns spec={spec} rows={5} />
      <PayloadField rows={3} value={payload} good="Valid JSON" onChange={setPayload} />
    </ActionDialog>
  );
}
