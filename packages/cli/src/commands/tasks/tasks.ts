/** `tasks`: lists tasks that match a filter, newest first. */
import type { ItemOf } from "@codeq/client/command-line";
import { type BodyOf, bodyOf, showAll } from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { printable } from "../../terminal/style.ts";
import type { Column } from "../../terminal/table.ts";
import { localMoment } from "../../terminal/units.ts";

const limitDefault = 50;
const limitMax = 1_000_000;
const errorCharsMax = 60;

export function run(call: Call): Promise<void> {
  return list(call, call.options.text("place"));
}

/** Prints the tasks in a place, or in all places, that the options ask for. */
export function list(call: Call, place: string | undefined): Promise<void> {
  const { options } = call;
  const limit = options.wholeNumber("limit", { min: 1, max: limitMax }) ?? limitDefault;
  const order = options.has("oldest") ? "oldest" : "newest";
  const [command] = call.words;
  const query = { ...filterOf(call), command, place, order };
  const none = "no tasks match";
  return showAll(call, "GET /admin/tasks", { columns, none, query, limit, isLines: true });
}

type Filter = Omit<
  Partial<BodyOf<"POST /admin/dead-letters/replay">>,
  "ids" | "all" | "limit" | "dryRun"
>;

/** The filter that the options make, by the names of the API. */
export function filterOf(call: Call): Filter {
  return bodyOf(call, "POST /admin/dead-letters/replay");
}

export function isGiven(filter: object): boolean {
  return Object.values(filter).some((value) => value !== undefined);
}

const columns: readonly Column<ItemOf<"GET /admin/tasks">>[] = [
  { title: "ID", show: ({ id }) => id.slice(-8) },
  { title: "COMMAND", show: ({ command }) => command },
  { title: "PLACE", show: ({ place }) => place },
  {
    title: "ATTEMPTS",
    align: "right",
    // The attempt of a worker that has the task, or has ended it, did not come back.
    show: ({ attempts = 0, maxAttempts, workerId }) =>
      `${attempts + (workerId === undefined ? 0 : 1)}/${maxAttempts}`,
  },
  { title: "CREATED", show: ({ createdAt }) => localMoment(createdAt) },
  { title: "ERROR", show: ({ error = "" }) => printable(error.slice(0, errorCharsMax)) },
];
