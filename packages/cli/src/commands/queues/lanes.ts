/** `lanes`: what the lanes of a queue have and wait for, their limits and their pauses. */
import type { ItemOf } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import * as contract from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import type { Column } from "../../terminal/table.ts";
import { localMoment } from "../../terminal/units.ts";
import { intervalOf, lookAgain } from "../../watch/look.ts";
import { sayBegun } from "../failures/jobs.ts";
import { rateOf, rateText } from "./topics.ts";

type Lane = ItemOf<"GET /admin/topics/:topicName/lanes">;

const columns: readonly Column<Lane>[] = [
  { title: "LANE", show: ({ lane }) => lane },
  { title: "READY", align: "right", show: ({ ready }) => String(ready) },
  { title: "RUNNING", align: "right", show: ({ inProgress }) => String(inProgress) },
  { title: "LIMIT", align: "right", show: ({ concurrency }) => String(concurrency ?? "-") },
  { title: "RATE", show: ({ rate }) => (rate === undefined ? "-" : rateText(rate)) },
  { title: "UNITS", align: "right", show: ({ unitsLeft }) => String(unitsLeft ?? "-") },
  { title: "OLDEST", show: ({ oldestAt }) => (oldestAt ? localMoment(oldestAt) : "-") },
  { title: "SHARE", align: "right", show: ({ share }) => `${Math.round(share * 100)}%` },
  { title: "WEIGHT", align: "right", show: ({ weight }) => String(weight) },
  { title: "WAITS", show: waitOf },
];

function waitOf({ paused, concurrency, inProgress, nextAt }: Lane): string {
  if (paused !== undefined) return `paused by ${paused.by}`;
  if (concurrency !== undefined && inProgress >= concurrency) return "at its limit";
  return nextAt === undefined ? "-" : `until ${nextAt}`;
}

export function lanes(call: Call): Promise<void> {
  const { options } = call;
  const query = {
    lane: options.text("lane"),
    limit: options.wholeNumber("limit", { min: 1, max: limits.lanesListedMax }),
  };
  const given = { params: { topicName: call.word(0) }, query };
  const none = "no lane has tasks, times or limits";
  return contract.showList(call, ["GET /admin/topics/:topicName/lanes", given], { columns, none });
}

export function set(call: Call): Promise<void> {
  const { options } = call;
  const given = contract.bodyOf(call, "PUT /admin/topics/:topicName/lanes/:lane");
  const body = { ...given, rate: rateOf(options.text("rate")) };
  return change(call, ["PUT /admin/topics/:topicName/lanes/:lane", { ...laneOf(call), body }]);
}

export function pause(call: Call): Promise<void> {
  const body = { reason: call.options.text("reason") };
  const key = "POST /admin/topics/:topicName/lanes/:lane/pause";
  return change(call, [key, { ...laneOf(call), body }]);
}

export function resume(call: Call): Promise<void> {
  return change(call, ["POST /admin/topics/:topicName/lanes/:lane/resume", laneOf(call)]);
}

/** Waits with the same look again and again, until no task is with a worker. */
export async function drain(call: Call): Promise<void> {
  await pause(call);
  const { host } = call;
  const quit = new AbortController();
  const { params } = laneOf(call);
  const query = { lane: params.lane };
  await lookAgain(host.clock, {
    intervalMs: intervalOf(call),
    signal: AbortSignal.any([host.stopped(), quit.signal]),
    look: async () => {
      const { value } = await contract.ask(call, "GET /admin/topics/:topicName/lanes", {
        params,
        query,
      });
      if ((value.lanes[0]?.inProgress ?? 0) === 0) quit.abort();
    },
    away: (error) => call.note(error.message),
  });
}

export function move(call: Call): Promise<void> {
  if (!call.options.has("to")) throw usageError("lanes move needs --to <queue>");
  return begin(call, "move");
}

export function purge(call: Call): Promise<void> {
  return begin(call, "cancel");
}

function begin(call: Call, action: "move" | "cancel"): Promise<void> {
  const [command, lane] = call.words;
  const dryRun = call.options.has("dry-run") ? true : undefined;
  const body = { ...contract.bodyOf(call, "POST /admin/jobs"), action, command, lane, dryRun };
  return contract.print(call, ["POST /admin/jobs", { body }], sayBegun);
}

const change: (
  call: Call,
  request: Parameters<
    typeof contract.showOne<
      | "PUT /admin/topics/:topicName/lanes/:lane"
      | "POST /admin/topics/:topicName/lanes/:lane/pause"
      | "POST /admin/topics/:topicName/lanes/:lane/resume"
    >
  >[1],
) => Promise<void> = (call, request) => contract.showOne(call, request, columns);

function remove(call: Call): Promise<void> {
  const [topicName, lane] = [call.word(0), call.word(1)];
  const key = "DELETE /admin/topics/:topicName/lanes/:lane";
  return contract.remove(call, [key, laneOf(call)], {
    json: { topicName, lane, deleted: true },
    done: `${lane} has the limits of the topic`,
  });
}

export { remove as delete };

function laneOf(call: Call) {
  return { params: { topicName: call.word(0), lane: call.word(1) } };
}
