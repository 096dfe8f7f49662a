/** `tasks`: lists tasks that match a filter, newest first. */
import { limits } from "@codeq/server/command-line";
import type { TaskFields } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { printable } from "../terminal/style.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { count, localMoment } from "../terminal/units.ts";

export interface ListedTask extends TaskFields {
  readonly place: string;
  readonly replays?: number;
  readonly dueAt?: string;
  readonly endedAt?: string;
}

interface Page {
  readonly tasks: readonly ListedTask[];
  readonly next?: string;
  readonly total?: number;
}

const limitDefault = 50;
const limitMax = 1_000_000;

export async function run(call: Call): Promise<number> {
  const place = call.options.text("place");
  return list(call, place === undefined ? {} : { place });
}

/** Prints the tasks that the options ask for; what is given comes before them. */
export async function list(call: Call, given: Readonly<Record<string, string>>): Promise<number> {
  const { options, json } = call;
  const limit = options.wholeNumber("limit", { min: 1, max: limitMax }) ?? limitDefault;
  const order = options.has("oldest") ? "oldest" : "newest";
  const [command] = call.words;
  const ofQueue = command === undefined ? {} : { command };
  const query = { ...filterOf(call), ...ofQueue, ...given, order };
  const { tasks, next, total } = await read(call, query, limit);
  if (json) {
    for (const task of tasks) call.printJson(task);
    return exitCodes.ok.code;
  }
  if (tasks.length === 0) call.print("no tasks match");
  else for (const line of tableLines(columns, tasks, call.style)) call.print(line);
  const of = total === undefined ? "" : ` of ${count(total)}`;
  if (next !== undefined)
    call.note(`showing the first ${count(tasks.length)}${of}; use --limit to show more`);
  return exitCodes.ok.code;
}

/** The filter that the options make, by the names of the API. */
export function filterOf({ options }: Call): Record<string, string> {
  const given = {
    priority: options.wholeNumber("priority", { min: 0, max: limits.priorityMax })?.toString(),
    worker: options.text("worker-id"),
    error: options.text("error"),
    group: options.text("group"),
    idempotencyKey: options.text("key"),
    payload: options.text("payload"),
    tag: options.has("tag") ? options.list("tag").join(",") : undefined,
    createdAfter: options.instant("created-after"),
    createdBefore: options.instant("created-before"),
    endedAfter: options.instant("ended-after"),
    endedBefore: options.instant("ended-before"),
  };
  const known = Object.entries(given).filter((entry): entry is [string, string] => {
    return entry[1] !== undefined;
  });
  return Object.fromEntries(known);
}

/** Goes on from page to page until there are enough. */
async function read(
  call: Call,
  query: Readonly<Record<string, string>>,
  limit: number,
): Promise<Page> {
  const api = await call.api();
  const tasks: ListedTask[] = [];
  let next: string | undefined = "";
  let total: number | undefined;
  while (next !== undefined && tasks.length < limit) {
    const size = Math.min(limit - tasks.length, limits.pageLimitMax);
    const asked = new URLSearchParams({ ...query, limit: String(size), after: next });
    const page = JSON.parse((await api.get(`/admin/tasks?${asked}`)).text) as Page;
    tasks.push(...page.tasks);
    next = page.next;
    total = page.total;
  }
  return {
    tasks,
    ...(next === undefined ? {} : { next }),
    ...(total === undefined ? {} : { total }),
  };
}

const errorCharsMax = 60;

const columns: readonly Column<ListedTask>[] = [
  { title: "ID", show: ({ id }) => id.slice(-8) },
  { title: "COMMAND", show: ({ command }) => command },
  { title: "PLACE", show: ({ place }) => place },
  {
    title: "TRIES",
    align: "right",
    show: ({ attempts = 0, maxAttempts = 0 }) => `${attempts}/${maxAttempts}`,
  },
  { title: "CREATED", show: ({ createdAt }) => localMoment(createdAt) },
  { title: "ERROR", show: ({ error = "" }) => printable(error.slice(0, errorCharsMax)) },
];
