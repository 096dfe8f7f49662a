/** `dlq`: lists, shows, groups, replays and deletes failures, which are dead letters and failed tasks, of the token's tenant. */
import { failureGroups, type ItemOf, type ReplyOf } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import { ask, asker, type BodyOf, bodyOf, print } from "../../api/contract-commands.ts";
import { taskLines } from "../../api/task-view.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";
import { readPayload, withPayload } from "../../payload.ts";
import { fit, printable } from "../../terminal/style.ts";
import { type Column, tableLines } from "../../terminal/table.ts";
import { count, counted, duration } from "../../terminal/units.ts";
import { filterOf, isGiven, list as listTasks } from "../tasks/tasks.ts";

type Body = BodyOf<"POST /admin/dead-letters/replay">;
type Outcome = ReplyOf<"POST /admin/dead-letters/replay" | "POST /admin/dead-letters/delete">;

export function list(call: Call): Promise<void> {
  return listTasks(call, "failure");
}

export function show(call: Call): Promise<void> {
  const params = { id: call.word(0) };
  return print(call, ["GET /admin/tasks/:id", { params }], ({ task }) =>
    taskLines(task, call.style).join("\n"),
  );
}

export async function groups(call: Call): Promise<void> {
  const { priority, ...filter } = filterOf(call);
  const [command] = call.words;
  const query = { ...filter, priority: priority?.toString(), command };
  const found = await failureGroups(asker(call), query);
  if (call.json) call.printJson({ groups: found });
  else if (found.length === 0) call.print("no failures");
  else {
    const { isTerminal, columns } = call.host.output;
    const width = isTerminal ? columns : Number.POSITIVE_INFINITY;
    for (const line of tableLines(ofGroups(call.host.clock.nowMs()), found, call.style)) {
      call.print(fit(line, width));
    }
  }
}

const textCharsMax = 60;
const queuesCharsMax = 20;

const ofGroups = (nowMs: number): readonly Column<ItemOf<"GET /admin/failure-groups">>[] => [
  { title: "GROUP", show: ({ id }) => id },
  { title: "COUNT", align: "right", show: (group) => count(group.count) },
  { title: "DEAD", align: "right", show: ({ dlq }) => count(dlq) },
  { title: "STATE", show: ({ state }) => state },
  { title: "LAST", show: ({ lastSeen }) => `${duration(nowMs - Date.parse(lastSeen))} ago` },
  {
    title: "QUEUES",
    show: ({ commands }) => fit(commands.map(({ command }) => command).join(","), queuesCharsMax),
  },
  { title: "ERROR", show: ({ text }) => printable(text.slice(0, textCharsMax)) },
];

export function triage(call: Call): Promise<void> {
  const key = "PUT /admin/failure-groups/:id/triage";
  const id = call.word(0);
  // The server refuses a state that does not exist.
  const state = call.word(1) as BodyOf<typeof key>["state"];
  const given = { params: { id }, body: { ...bodyOf(call, key), state } };
  return print(call, [key, given], () =>
    state === "open" ? `${id} is open again` : `${id} is ${state}`,
  );
}

export function replay(call: Call): Promise<number> {
  return act(call, "replay", chosen(call));
}

/** Creates a new task from a task that has ended, with some things changed. */
export async function edit(call: Call): Promise<void> {
  const key = "POST /admin/tasks/:id/replay";
  const changes = bodyOf(call, key);
  const [id = "", given] = call.words;
  if (given === undefined && !isGiven(changes)) {
    throw usageError(
      "say what is different: a payload, --to, --priority, --max-attempts or --delay",
    );
  }
  const payload = given === undefined ? undefined : await readPayload(call, given, false);
  const body = withPayload(changes, payload);
  return print(call, [key, { params: { id }, body }], ({ task }) => `made task ${task.id} of it`);
}

function remove(call: Call): Promise<number> {
  return act(call, "delete", chosen(call));
}

export { remove as delete };

/** Deletes all failures, or all of one queue. */
export function purge(call: Call): Promise<number> {
  const [command] = call.words;
  if (!call.options.has("yes") && !call.options.has("dry-run")) {
    const line = command === undefined ? "dlq purge" : `dlq purge ${command}`;
    throw usageError(
      "this deletes dead letters and failed tasks permanently; --dry-run only counts them",
      `codeq ${line} --yes`,
    );
  }
  return act(call, "delete", command === undefined ? { all: true } : { command });
}

/** Which failures the arguments and the options mean. */
function chosen(call: Call): Body {
  const { words: ids, options } = call;
  const filter = filterOf(call);
  const isAll = options.has("all");
  if (Number(ids.length > 0) + Number(isGiven(filter)) + Number(isAll) !== 1) {
    throw usageError(
      "no failures were selected; pass ids, a filter such as --command mail, or --all",
    );
  }
  if (ids.length > 0) return { ids };
  return isAll ? { all: true } : filter;
}

async function act(call: Call, verb: "replay" | "delete", which: Body): Promise<number> {
  const { options } = call;
  const limit = options.wholeNumber("limit", { min: 1, max: limits.bulkLimitMax });
  const dryRun = options.has("dry-run") ? true : undefined;
  const body = { ...which, limit, dryRun };
  const { text, value } = await ask(call, `POST /admin/dead-letters/${verb}`, { body });
  call.print(call.json ? text : sayOutcome(value, verb, dryRun === true));
  return value.failed.length === 0 ? exitCodes.ok.code : exitCodes.refused.code;
}

function sayOutcome(outcome: Outcome, verb: "replay" | "delete", isDryRun: boolean): string {
  const { matched, failed, hasMore } = outcome;
  const changed = "replayed" in outcome ? outcome.replayed : outcome.deleted;
  const done = verb === "replay" ? "replayed" : "deleted";
  const head = isDryRun
    ? `${counted(matched, "failure")} would be ${done}`
    : `${done} ${counted(changed, "failure")}`;
  const skipped = failed.map(({ id, code }) => `${id} was skipped: ${code}`);
  const job = `codeq jobs start ${verb} changes all of them as one job, with a total`;
  const more = hasMore ? [`there are more; ${job}`] : [];
  return [head, ...skipped, ...more].join("\n");
}
