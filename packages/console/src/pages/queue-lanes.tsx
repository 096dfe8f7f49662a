/** The lanes of a queue: what each has and waits for, its limits, and what an operator does to one of them. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { count, plural, share } from "../format.ts";
import { ActionDialog, Effects, openDialog } from "../overlays/dialog.tsx";
import { Given, Panel, Time } from "../parts/basics.tsx";
import { Act, Menu } from "../parts/buttons.tsx";
import { TextField } from "../parts/fields.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";
import { href } from "../router.ts";
import { showFilter } from "../task-filter.ts";
import { sendCall, sendNow } from "../toasts.tsx";
import { askBulkJob, askMoveMany } from "./bulk-jobs.tsx";

type Lane = ItemOf<"GET /admin/topics/:topicName/lanes">;

const lanesShown = 50;

/** Nothing for a queue without lanes. */
export function QueueLanes({ queue }: { readonly queue: string }): JSX.Element | null {
  const given = { params: { topicName: queue }, query: { limit: lanesShown } };
  const request = callOf("GET /admin/topics/:topicName/lanes", given);
  const { data } = useAnswer("lanes", request, { follows: { queue } });
  if (data === undefined || data.total === 0) return null;
  const cut = data.total > lanesShown ? `, the ${lanesShown} deepest of them` : "";
  return (
    <Panel title="Lanes" id="lanes" note={plural(data.total, "lane") + cut}>
      <CardTable rows={data.lanes} id={({ lane }) => lane} columns={columnsOf(queue)} />
    </Panel>
  );
}

function columnsOf(queue: string): readonly Column<Lane>[] {
  return [
    title("Lane", ({ lane }) => (
      <a href={tasksOf(queue, lane)}>
        <Given text={lane} max={60} />
      </a>
    )),
    num("Ready", ({ ready }) => count(ready)),
    num("Leased", ({ inProgress, concurrency }) =>
      concurrency === undefined
        ? count(inProgress)
        : `${count(inProgress)} of ${count(concurrency)}`,
    ),
    num("Next created", ({ oldestAt }) => <Time at={oldestAt} none="–" />),
    num("Share", (lane) => share(lane.share)),
    num("Units left", ({ unitsLeft, rate }) =>
      unitsLeft === undefined ? "–" : `${count(unitsLeft)} of ${rateText(rate)}`,
    ),
    num("Weight", ({ weight }) => count(weight)),
    column("Waits", (lane) => <Wait of={lane} />),
    actions((lane) => <Actions queue={queue} lane={lane} />),
  ];
}

function Wait({ of }: { readonly of: Lane }): JSX.Element {
  const { paused, concurrency, inProgress, nextAt } = of;
  if (paused !== undefined) {
    return (
      <>
        paused by <bdi>{paused.by}</bdi>
        {paused.reason === undefined ? null : (
          <>
            : <Given text={paused.reason} max={100} />
          </>
        )}
      </>
    );
  }
  if (concurrency !== undefined && inProgress >= concurrency) return <>at its limit</>;
  return nextAt === undefined ? <>–</> : <Time at={nextAt} />;
}

function tasksOf(queue: string, lane: string, place?: string): string {
  const tokens = [
    { key: "queue", value: queue },
    { key: "lane", value: lane },
    ...(place === undefined ? [] : [{ key: "state", value: place }]),
  ];
  return href("/tasks", { q: showFilter(tokens) });
}

interface OneLane {
  readonly queue: string;
  readonly lane: Lane;
}

function Actions({ queue, lane: { lane, paused, ...rest } }: OneLane): JSX.Element {
  const params = { topicName: queue, lane };
  const matching = {
    ids: [],
    filter: { command: queue, lane },
    shown: showFilter([
      { key: "queue", value: queue },
      { key: "lane", value: lane },
    ]),
  };
  const resume = callOf("POST /admin/topics/:topicName/lanes/:lane/resume", { params });
  return (
    <Menu label={`Actions for ${lane}`} icon="more" isBare>
      {paused === undefined ? (
        <Act
          class="opt"
          icon="pause"
          onClick={() => openDialog(<PauseLane queue={queue} lane={{ lane, paused, ...rest }} />)}
        >
          Pause or drain…
        </Act>
      ) : (
        <Act class="opt" icon="play" onClick={() => sendNow(resume, `Resumed ${lane}`, "lanes")}>
          Resume
        </Act>
      )}
      <Act
        class="opt"
        icon="settings"
        onClick={() => openDialog(<LaneLimits queue={queue} lane={{ lane, paused, ...rest }} />)}
      >
        Limits…
      </Act>
      <Act class="opt" icon="move" onClick={() => askMoveMany(matching)}>
        Move all that wait…
      </Act>
      <a class="btn opt" href={href("/failures", { queue, lane })}>
        Failures
      </a>
      <Act class="opt danger" icon="x" onClick={() => askBulkJob("cancel", matching)}>
        Cancel all tasks…
      </Act>
    </Menu>
  );
}

function PauseLane({ queue, lane: { lane, ready, inProgress } }: OneLane): JSX.Element {
  const [reason, setReason] = useState("");
  const params = { topicName: queue, lane };
  const call = callOf("POST /admin/topics/:topicName/lanes/:lane/pause", {
    params,
    body: { reason },
  });
  return (
    <ActionDialog
      title={`Pause the lane ${lane}?`}
      about="Workers get no more tasks of this lane until someone resumes it. Other lanes go on."
      button="Pause lane"
      icon="pause"
      call={call}
      run={() => sendCall(call, `Paused ${lane}`, "lanes")}
    >
      <Effects
        of={[
          ["ready", `${plural(ready, "ready task stays", "ready tasks stay")} in order.`],
          ["leased", `${plural(inProgress, "leased task finishes", "leased tasks finish")}.`],
        ]}
      />
      <TextField
        label="Reason, shown to everyone"
        maxLength={200}
        value={reason}
        onChange={setReason}
      />
    </ActionDialog>
  );
}

function LaneLimits({ queue, lane: { lane, concurrency, rate, weight } }: OneLane): JSX.Element {
  const [values, setValues] = useState({
    concurrency: concurrency === undefined ? "" : String(concurrency),
    rate: rate === undefined ? "" : rateText(rate),
    weight: String(weight),
  });
  const params = { topicName: queue, lane };
  const body = {
    concurrency: values.concurrency === "" ? undefined : Number(values.concurrency),
    rate: rateOf(values.rate),
    weight: values.weight === "" ? undefined : Number(values.weight),
  };
  const call = callOf("PUT /admin/topics/:topicName/lanes/:lane", { params, body });
  const field = (name: keyof typeof values, label: string): JSX.Element => (
    <TextField
      label={label}
      value={values[name]}
      onChange={(value) => setValues({ ...values, [name]: value.trim() })}
    />
  );
  return (
    <ActionDialog
      title={`Limits of the lane ${lane}`}
      about="What is left empty is as the topic of the queue says."
      button="Save limits"
      icon="check"
      call={call}
      isReady={
        /^\d{0,9}$/.test(values.concurrency) &&
        /^\d{0,4}$/.test(values.weight) &&
        (values.rate === "") === (body.rate === undefined)
      }
      run={() => sendCall(call, `The limits of ${lane} apply from now on`, "lanes")}
    >
      {field("concurrency", "Leases at most")}
      {field("rate", "Units in a time, such as 100/1m, or 100/1m/20 with at most 20 at once")}
      {field("weight", "Weight: how many shares the lane gets")}
    </ActionDialog>
  );
}

export function rateText(
  { units, per, burst }: NonNullable<Lane["rate"]> = { units: 0, per: "" },
): string {
  return burst === undefined ? `${units}/${per}` : `${units}/${per}/${burst}`;
}

export function rateOf(text: string): Lane["rate"] {
  const [, units, per, burst] = /^(\d+)\/(\d+[smhd])(?:\/(\d+))?$/.exec(text) ?? [];
  if (per === undefined) return undefined;
  return { units: Number(units), per, ...(burst === undefined ? {} : { burst: Number(burst) }) };
}
