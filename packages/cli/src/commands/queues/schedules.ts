/** `schedules`: tasks that come back. */
import type { ItemOf } from "@codeq/client/command-line";
import { plannedRuns } from "@codeq/server/command-line";
import * as contract from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { uniqueIn } from "../../payload.ts";
import { type Column, tableLines } from "../../terminal/table.ts";
import { counted, momentOr } from "../../terminal/units.ts";

type Schedule = ItemOf<"GET /admin/schedules">;

export function put(call: Call): Promise<void> {
  const body = {
    ...contract.bodyOf(call, "PUT /admin/schedules/:id"),
    command: call.word(1),
    payload: payloadOf(call),
    unique: uniqueIn(call.options),
    except: call.options.has("except") ? call.options.list("except") : undefined,
  };
  return contract.print(
    call,
    ["PUT /admin/schedules/:id", { ...ofOne(call), body }],
    ({ id, version, nextAt }) => `${id} has version ${version}; next: ${momentOr(nextAt, "never")}`,
  );
}

function payloadOf({ options }: Call): unknown {
  const text = options.text("payload");
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // The text is all that is known about the mistake.
    throw usageError("--payload is not JSON", `quote it for the shell: --payload '{"page":1}'`);
  }
}

const columns: readonly Column<Schedule>[] = [
  { title: "SCHEDULE", show: ({ id }) => id },
  { title: "QUEUE", show: ({ command }) => command },
  { title: "TIMES", show: ({ cron, every }) => cron ?? `every ${every}` },
  { title: "ZONE", show: ({ tz = "UTC" }) => tz },
  {
    title: "NEXT",
    show: ({ nextAt, paused }) => (paused === undefined ? momentOr(nextAt, "never") : "paused"),
  },
  { title: "LAST", show: ({ lastAt }) => momentOr(lastAt, "-") },
  { title: "FIRED", align: "right", show: ({ fired }) => String(fired) },
  { title: "SKIPPED", align: "right", show: ({ skipped }) => String(sum(Object.values(skipped))) },
  { title: "LIVE", align: "right", show: ({ live }) => String(live) },
];

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

export function list(call: Call): Promise<void> {
  const none = "no schedules; codeq schedules put makes one";
  const query = { prefix: call.options.text("prefix") };
  return contract.showAll(call, "GET /admin/schedules", { columns, none, query });
}

export function get(call: Call): Promise<void> {
  return contract.showOne(call, ["GET /admin/schedules/:id", ofOne(call)], columns);
}

function remove(call: Call): Promise<void> {
  return contract.remove(call, ["DELETE /admin/schedules/:id", ofOne(call)], {
    json: { id: call.word(0), deleted: true },
    done: `${call.word(0)} is deleted; its tasks stay`,
  });
}

export { remove as delete };

export function pause(call: Call): Promise<void> {
  const given = { ...ofOne(call), body: { reason: call.options.text("reason") } };
  return contract.print(
    call,
    ["POST /admin/schedules/:id/pause", given],
    ({ id }) => `${id} is paused`,
  );
}

export function resume(call: Call): Promise<void> {
  return contract.print(
    call,
    ["POST /admin/schedules/:id/resume", ofOne(call)],
    ({ id, nextAt }) => `${id} goes on; next: ${momentOr(nextAt, "never")}`,
  );
}

export function run(call: Call): Promise<void> {
  const request = ["POST /admin/schedules/:id/run", ofOne(call)] as const;
  return contract.print(call, request, ({ taskId }) => taskId);
}

const runColumns: readonly Column<ItemOf<"GET /admin/schedules/:id/runs">>[] = [
  { title: "FOR", show: ({ at }) => momentOr(at, "-") },
  {
    title: "WHAT",
    show: ({ kind, why, count }) => (why === undefined ? kind : `${count} skipped`),
  },
  { title: "WHY", show: ({ why }) => why ?? "-" },
  { title: "STATUS", show: ({ status }) => status ?? "-" },
  { title: "TASK", show: ({ taskId }) => taskId ?? "-" },
];

export function runs(call: Call): Promise<void> {
  const limit = call.options.wholeNumber("limit", { min: 1, max: 1000 }) ?? 20;
  const given = { ...ofOne(call), query: { limit } };
  const listing = { columns: runColumns, none: "nothing yet" };
  return contract.showList(call, ["GET /admin/schedules/:id/runs", given], listing);
}

export function why(call: Call): Promise<void> {
  const given = { ...ofOne(call), query: { at: call.word(1) } };
  return contract.print(call, ["GET /admin/schedules/:id/explain", given], ({ text }) => text);
}

export function backfill(call: Call): Promise<void> {
  const { from, until, ...rest } = contract.bodyOf(call, "POST /admin/schedules/:id/backfill");
  if (from === undefined || until === undefined) {
    throw usageError("--from or --until is missing", "give both, such as 2026-03-01T00:00:00Z");
  }
  const dryRun = call.options.has("dry-run") ? true : undefined;
  const given = { ...ofOne(call), body: { ...rest, from, until, dryRun } };
  return contract.print(call, ["POST /admin/schedules/:id/backfill", given], (answer) =>
    "id" in answer
      ? `job ${answer.id} has begun; codeq jobs show ${answer.id} --watch follows it`
      : `${answer.hasMore ? "at least " : ""}${counted(answer.matched, "task")} would be created`,
  );
}

/** Without a server. */
export async function next(call: Call): Promise<void> {
  const { options, host } = call;
  const after = options.instant("after");
  const isPeriod = /^[\d.]+(ms|s|m|h|d)$/.test(call.word(0));
  const found = plannedRuns(
    {
      cron: isPeriod ? "" : call.word(0),
      every: isPeriod ? call.word(0) : "",
      offset: "",
      tz: options.text("tz") ?? "UTC",
      except: options.has("except") ? options.list("except") : [],
    },
    {
      afterMs: after === undefined ? host.clock.nowMs() : Date.parse(after),
      count: options.wholeNumber("count", { min: 1, max: 1000 }) ?? 10,
    },
  );
  if (!found.ok) throw usageError(found.why);
  if (call.json) {
    call.printJson({
      runs: found.runs.map(({ atMs, ...run }) => ({ at: new Date(atMs).toISOString(), ...run })),
    });
    return;
  }
  const none = "it never fires";
  call.print(
    found.runs.length === 0 ? none : tableLines(plannedColumns, found.runs, call.style).join("\n"),
  );
}

type Planned = Extract<ReturnType<typeof plannedRuns>, { readonly ok: true }>["runs"][number];

const plannedColumns: readonly Column<Planned>[] = [
  { title: "LOCAL", show: ({ local }) => local },
  { title: "OFFSET", show: ({ offset }) => offset },
  { title: "UTC", show: ({ atMs }) => new Date(atMs).toISOString().replace(".000Z", "Z") },
  { title: "NOTE", show: ({ note }) => note ?? "" },
];

function ofOne(call: Call) {
  return { params: { id: call.word(0) } };
}
