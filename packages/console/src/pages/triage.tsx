/** What can be decided about a failure group, and what was. */
import type { Given as GivenTo } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { duration, plural } from "../format.ts";
import type { FailureGroup, GroupState } from "../model/failures.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Badge, Given, Note, Reason, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Choices, TextField } from "../parts/fields.tsx";
import type { IconName } from "../parts/icon.tsx";
import { sendCall, sendNow } from "../toasts.tsx";

const minuteMs = 60_000;
const snoozes = [
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
  ["604800", "7 days"],
] as const;
type Snooze = (typeof snoozes)[number][0];

export const stateWords: Readonly<Record<GroupState, string>> = {
  open: "Open",
  returned: "Returned",
  resolved: "Resolved",
  ignored: "Ignored",
  snoozed: "Snoozed",
};

const icons: Readonly<Record<Exclude<GroupState, "open">, IconName>> = {
  returned: "warn",
  resolved: "check",
  ignored: "eyeoff",
  snoozed: "snooze",
};

export function GroupBadge({ state }: { readonly state: GroupState }): JSX.Element | null {
  if (state === "open") return null;
  return (
    <Badge tone={state === "returned" ? "warn" : "mute"} icon={icons[state]}>
      {stateWords[state]}
    </Badge>
  );
}

type Decision = GivenTo<"PUT /admin/failure-groups/:id/triage">["body"];

function triageCall({ id }: FailureGroup, body: Decision) {
  return callOf("PUT /admin/failure-groups/:id/triage", { params: { id }, body });
}

function reopen(group: FailureGroup): void {
  sendNow(triageCall(group, { state: "open" }), "The group is open again", "failures");
}

export function TriageButtons({ group }: { readonly group: FailureGroup }): JSX.Element {
  if (group.state !== "open" && group.state !== "returned") {
    return (
      <Act class="sm" onClick={() => reopen(group)}>
        Open again
      </Act>
    );
  }
  return (
    <>
      {(["resolved", "ignored", "snoozed"] as const).map((state) => (
        <Act
          key={state}
          class="sm"
          icon={icons[state]}
          onClick={() => openDialog(() => <TriageDialog group={group} state={state} />)}
        >
          {verbs[state]}
        </Act>
      ))}
    </>
  );
}

const verbs = { resolved: "Resolve", ignored: "Ignore", snoozed: "Snooze…" } as const;
const meanings = {
  resolved: "Its dead letters stay. The group is marked as returned when it fails again.",
  ignored: "Its dead letters stay. The group leaves the inbox, also when it fails again.",
  snoozed: "Its dead letters stay. The group leaves the inbox until the time is over.",
} as const;

function TriageDialog(props: {
  readonly group: FailureGroup;
  readonly state: keyof typeof verbs;
}): JSX.Element {
  const { group, state } = props;
  const [reason, setReason] = useState("");
  const [seconds, setSeconds] = useState<Snooze>("28800");
  const body = {
    state,
    ...(state === "snoozed" ? { snoozeSeconds: Number(seconds) } : {}),
    ...(reason.trim() === "" ? {} : { reason: reason.trim() }),
  };
  const call = triageCall(group, body);
  const verb = verbs[state].replace("…", "");
  return (
    <ActionDialog
      title={`${verb} this group?`}
      about={`${plural(group.count, "failure")}. ${meanings[state]}`}
      button={`${verb} group`}
      icon={icons[state]}
      call={call}
      run={() => sendCall(call, `${stateWords[state]} the group`, "failures")}
    >
      {state === "snoozed" ? (
        <Choices label="How long" options={snoozes} value={seconds} onChange={setSeconds} />
      ) : null}
      <TextField
        label="Reason, shown to everyone"
        maxLength={500}
        value={reason}
        onChange={setReason}
      />
    </ActionDialog>
  );
}

/** Who decided what, in a line. */
export function TriageLine({ group }: { readonly group: FailureGroup }): JSX.Element | null {
  const { triage, state } = group;
  if (triage === undefined) return null;
  const word = state === "returned" ? "Failed again after it was resolved by" : stateWords[state];
  const left = triage.until === undefined ? 0 : Date.parse(triage.until) - Date.now();
  return (
    <Note
      icon={state === "open" ? "snooze" : icons[state]}
      tone={state === "returned" ? "warn" : undefined}
    >
      {state === "open" ? "Snoozed before" : word}
      {state === "returned" ? " " : " by "}
      <b>
        <Given text={triage.by} max={100} />
      </b>{" "}
      <Time at={triage.at} />
      {left > 0 ? `, for another ${duration(Math.max(left, minuteMs))}` : ""}
      <Reason text={triage.reason} max={500} />
    </Note>
  );
}
