/** `dlq`: lists, shows, replays and deletes dead letters of the token's tenant. */
import { type ResultFields, taskLines } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { readPayload } from "../payload.ts";
import { counted } from "../terminal/units.ts";
import { filterOf, type ListedTask, list as listTasks } from "./tasks.ts";

interface Outcome {
  readonly matched: number;
  readonly replayed?: number;
  readonly deleted?: number;
  readonly failed: readonly { readonly id: string; readonly code: string }[];
  readonly hasMore: boolean;
}

export function list(call: Call): Promise<number> {
  return listTasks(call, { place: "dead" });
}

export async function show(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get(`/admin/tasks/${encodeURIComponent(call.word(0))}`);
  if (call.json) {
    call.print(text);
    return exitCodes.ok.code;
  }
  const { task } = JSON.parse(text) as { task: ListedTask; result?: ResultFields };
  for (const line of taskLines(task, call.style)) call.print(line);
  return exitCodes.ok.code;
}

export function replay(call: Call): Promise<number> {
  return act(call, "replay", chosen(call));
}

/** A new task of one that has ended, with some things changed. */
export async function edit(call: Call): Promise<number> {
  const { options } = call;
  const delayMs = options.durationMs("delay");
  const payload =
    call.words[1] === undefined ? undefined : await readPayload(call, call.word(1), false);
  const changes = {
    command: options.text("to"),
    priority: options.wholeNumber("priority", { min: 0, max: 9 }),
    maxAttempts: options.wholeNumber("max-attempts", { min: 1, max: 1000 }),
    delaySeconds: delayMs === undefined ? undefined : Math.ceil(delayMs / 1000),
  };
  const fields = JSON.stringify(changes).slice(1, -1);
  const parts = [
    ...(payload === undefined ? [] : [`"payload":${payload}`]),
    ...(fields ? [fields] : []),
  ];
  if (parts.length === 0) {
    throw usageError(
      "say what is different: a payload, --to, --priority, --max-attempts or --delay",
    );
  }
  const api = await call.api();
  const path = `/admin/tasks/${encodeURIComponent(call.word(0))}/replay`;
  const { text } = await api.post(path, `{${parts.join(",")}}`);
  const { task } = JSON.parse(text) as { task: ListedTask };
  if (call.json) call.print(text);
  else call.print(`made task ${task.id} of it`);
  return exitCodes.ok.code;
}

export function remove(call: Call): Promise<number> {
  return act(call, "delete", chosen(call));
}

/** Everything, or everything of a queue; it has to be confirmed, for nothing brings them back. */
export function purge(call: Call): Promise<number> {
  const [command] = call.words;
  if (!call.options.has("yes") && !call.options.has("dry-run")) {
    const line = command === undefined ? "dlq purge" : `dlq purge ${command}`;
    throw usageError(
      "this deletes dead letters permanently; --dry-run only counts them",
      `codeq ${line} --yes`,
    );
  }
  return act(call, "delete", command === undefined ? { all: true } : { command });
}

/** Which dead letters the arguments and the options mean. */
function chosen(call: Call): Record<string, unknown> {
  const { words: ids, options } = call;
  const { priority, ...rest } = filterOf(call);
  const command = options.text("command");
  const filter = {
    ...rest,
    ...(command === undefined ? {} : { command }),
    ...(priority === undefined ? {} : { priority: Number(priority) }),
  };
  const isFiltered = Object.keys(filter).length > 0;
  const isAll = options.has("all");
  if (Number(ids.length > 0) + Number(isFiltered) + Number(isAll) !== 1) {
    throw usageError(
      "no dead letters were selected; pass ids, a filter such as --command mail, or --all",
    );
  }
  if (ids.length > 0) return { ids };
  return isAll ? { all: true } : filter;
}

async function act(
  call: Call,
  verb: "replay" | "delete",
  which: Readonly<Record<string, unknown>>,
): Promise<number> {
  const { options } = call;
  const limit = options.wholeNumber("limit", { min: 1, max: 10_000 });
  const dryRun = options.has("dry-run") ? true : undefined;
  const api = await call.api();
  const body = JSON.stringify({ ...which, limit, dryRun });
  const { text } = await api.post(`/admin/dead-letters/${verb}`, body);
  const outcome = JSON.parse(text) as Outcome;
  if (call.json) call.print(text);
  else for (const line of linesOf(outcome, verb, dryRun === true)) call.print(line);
  return outcome.failed.length === 0 ? exitCodes.ok.code : exitCodes.refused.code;
}

function linesOf(
  { matched, replayed = 0, deleted = 0, failed, hasMore }: Outcome,
  verb: "replay" | "delete",
  isDryRun: boolean,
): string[] {
  const done = verb === "replay" ? "replayed" : "deleted";
  const head = isDryRun
    ? `${counted(matched, "dead letter")} would be ${done}`
    : `${done} ${counted(replayed + deleted, "dead letter")}`;
  const more = hasMore ? ["there are more; run the command again for the rest"] : [];
  return [head, ...failed.map(({ id, code }) => `${id} was skipped: ${code}`), ...more];
}
