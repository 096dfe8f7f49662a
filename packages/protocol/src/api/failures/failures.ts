/** Failure groups: failed tasks and dead letters by what their errors have in common, and what was decided about them. */

import { endpoints } from "../../contract/endpoint.ts";
import { count, instant, list, object, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { taskFilter } from "../tasks/task-filter.ts";

const decisions = ["resolved", "ignored", "snoozed"] as const;
const state = text("`returned` when it failed again after it was resolved.", {
  oneOf: ["open", "returned", ...decisions],
});
const triage = object(
  {
    by: text(),
    at: instant("", { as: "atMs" }),
    until: instant("", { none: 0 }),
    reason: text("", { none: "" }),
  },
  { about: "Who decided so, and until when.", isOptional: true },
);

export const FailureGroup = object(
  {
    id: text("For the filter `group`."),
    text: text("What the errors have in common."),
    count: count(),
    dlq: count("How many of them are dead letters."),
    failed: count("How many of them failed without a retry."),
    firstSeen: instant("", { as: "firstMs" }),
    lastSeen: instant("", { as: "lastMs" }),
    commands: list(object({ command: text(), count: count() })),
    example: object({ taskId: text(), error: text() }, { about: "The last of them." }),
    trend: list(count(), "Failures in each of the last 24 hours, this hour the last."),
    state,
    triage,
  },
  { about: "Failures whose errors have something in common." },
);

const max = limits.reasonCharsMax;

export const Triage = object(
  {
    state: text("`resolved`, `ignored`, `snoozed`, or `open` to take that back.", {
      isRequired: true,
      oneOf: ["open", ...decisions],
      rule: `one of ${["open", ...decisions].join(", ")}`,
    }),
    snoozeSeconds: whole("For `snoozed`: seconds until the group is open again.", {
      min: 1,
      max: limits.snoozeSecondsMax,
      isOptional: true,
    }),
    reason: text(`At most ${max} characters.`, {
      max,
      none: "",
      refusal: `'reason' is longer than ${max}`,
    }),
  },
  { about: "What is decided about a failure group; `open` takes it back.", isClosed: true },
);

export const failures = endpoints({
  listFailureGroups: {
    key: "GET /admin/failure-groups",
    access: "viewer",
    summary: "Group failures by what their errors have in common",
    about:
      "Dead letters and failed tasks, by their errors without numbers, ids, quoted text and paths. The work for an " +
      "answer is bounded: with `next` there are more tasks to look at, and counts of the same group add up.",
    query: {
      ...taskFilter,
      after: text("`next` of the answer before; empty for the first.", { none: "" }),
    },
    refusals: ["payloads_hidden"],
    replies: {
      200: {
        about: "The largest group first.",
        shape: object(
          {
            groups: list(FailureGroup),
            scanned: count("Number of tasks that the server examined."),
            next: text("Where to go on; then counts of the same group add up.", {
              isOptional: true,
            }),
          },
          { name: "FailureGroups" },
        ),
      },
    },
  },
  triageFailureGroup: {
    key: "PUT /admin/failure-groups/:id/triage",
    operation: "triage_failures",
    access: "admin",
    summary: "Resolve, ignore or snooze a failure group",
    about:
      "Changes no task. A group that fails again after it was resolved has the state `returned`; a snoozed group is " +
      "open again when its time is over.",
    params: {
      id: text("The id of the failure group.", {
        pattern: /^[0-9a-f]{4,64}$/,
        refusal: "invalid group (use the id of a failure group)",
      }),
    },
    body: Triage,
    refusals: ["invalid_argument"],
    replies: {
      200: {
        about: "The group as it was decided.",
        shape: object({ id: text(), state, triage }, { name: "TriagedGroup" }),
      },
    },
  },
});
