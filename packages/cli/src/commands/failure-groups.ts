/** `dlq groups`: groups failures by their errors. */
import type { Given, ItemOf, ReplyOf } from "@codeq/client/command-line";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { printable } from "../terminal/style.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { count, localMoment } from "../terminal/units.ts";
import { ask } from "./contract-commands.ts";
import { filterOf } from "./tasks.ts";

type Page = ReplyOf<"GET /admin/failure-groups">;
type FailureGroup = ItemOf<"GET /admin/failure-groups">;

const textCharsMax = 60;

export async function run(call: Call): Promise<number> {
  const groups = await read(call);
  if (call.json) call.printJson({ groups });
  else if (groups.length === 0) call.print("no failures");
  else for (const line of tableLines(columns, groups, call.style)) call.print(line);
  return exitCodes.ok.code;
}

/** Goes on until everything was looked at; the same group may come again. */
async function read(call: Call): Promise<readonly FailureGroup[]> {
  const [command] = call.words;
  const query = { ...filterOf(call), ...(command === undefined ? {} : { command }) };
  const groups = new Map<string, FailureGroup>();
  for (let next: string | undefined = ""; next !== undefined; ) {
    const given: Given<"GET /admin/failure-groups"> = { query: { ...query, after: next } };
    const page: Page = (await ask(call, "GET /admin/failure-groups", given)).value;
    for (const group of page.groups) groups.set(group.id, added(groups.get(group.id), group));
    next = page.next;
  }
  return [...groups.values()].sort((one, other) => other.count - one.count);
}

function added(before: FailureGroup | undefined, group: FailureGroup): FailureGroup {
  if (before === undefined) return group;
  return {
    ...before,
    count: before.count + group.count,
    dlq: before.dlq + group.dlq,
    failed: before.failed + group.failed,
  };
}

const columns: readonly Column<FailureGroup>[] = [
  { title: "GROUP", show: ({ id }) => id },
  { title: "COUNT", align: "right", show: (group) => count(group.count) },
  { title: "DEAD", align: "right", show: ({ dlq }) => count(dlq) },
  { title: "STATE", show: ({ state }) => state },
  { title: "LAST", show: ({ lastSeen }) => localMoment(lastSeen) },
  { title: "QUEUES", show: ({ commands }) => commands.map(({ command }) => command).join(",") },
  { title: "ERROR", show: ({ text }) => printable(text.slice(0, textCharsMax)) },
];
