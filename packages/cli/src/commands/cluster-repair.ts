/** `cluster repair`: shows what every node has of the logs, and repairs what is wrong. */
import type { RepairedLog } from "@codeq/client";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { logName } from "./cluster.ts";

interface Row {
  readonly shard: string;
  readonly copy: RepairedLog["copies"][number];
}

const columns: readonly Column<Row>[] = [
  { title: "shard", align: "right", show: ({ shard }) => shard },
  { title: "node", show: ({ copy }) => copy.node },
  { title: "data", show: ({ copy }) => dataOf(copy) },
  { title: "log", align: "right", show: ({ copy }) => String(copy.logId ?? "") },
  { title: "epoch", align: "right", show: ({ copy }) => String(copy.epoch ?? "") },
  { title: "slot", align: "right", show: ({ copy }) => String(copy.slot ?? "") },
];

export async function repair(call: Call): Promise<number> {
  const { options } = call;
  const body = JSON.stringify({
    shard: options.text("shard"),
    without: options.list("without"),
    from: options.text("from"),
    confirm: options.has("yes"),
  });
  const { text } = await (await call.api()).post("/admin/cluster/repair", body);
  const { logs } = JSON.parse(text) as { readonly logs: readonly RepairedLog[] };
  if (call.json) call.printJson({ logs });
  else show(call, logs);
  const isLeft = logs.some(({ action, done }) => action !== "none" && !done);
  return isLeft ? exitCodes.taskFailed.code : exitCodes.ok.code;
}

function show(call: Call, logs: readonly RepairedLog[]): void {
  const rows = logs.flatMap(({ shard, copies }) => copies.map((copy) => ({ shard, copy })));
  for (const line of tableLines(columns, rows, call.style)) call.print(line);
  for (const log of logs) call.print(`${logName(log.shard)}: ${actionOf(log)}`);
  if (logs.some(({ action, done }) => !done && (action === "copy" || action === "renew"))) {
    call.print("nothing was changed; run codeq cluster repair --yes to do this");
  }
}

function dataOf({ following, damaged, logId }: Row["copy"]): string {
  if (damaged) return "damaged";
  if (logId === undefined) return "none";
  return following ? "follows" : "stopped";
}

function actionOf({ action, from, nodes = [], why }: RepairedLog): string {
  const names = nodes.join(", ");
  switch (action) {
    case "none":
      return "nothing to repair";
    case "copy":
      return `${names} put their data aside and copy it from another node`;
    case "renew": {
      const others = names === "" ? "" : `; ${names} put theirs aside and copy it`;
      return `the log lost records; a new log continues the data of ${from}${others}`;
    }
    case "refused":
      return `cannot be repaired: ${why}`;
  }
}
