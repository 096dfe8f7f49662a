/**
 * `log inspect`: shows the segments of the commit log without changing anything. It shows keys but not
 * values, because values contain user data.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { InspectedLog, InspectedRecord } from "@codeq/server/data-dir";
import type { Call } from "../../call.ts";
import { CliError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";
import { dataDirectoryOf, serverConfig } from "../../local/data-directory.ts";
import { type StoreDirectory, storeName, storesIn } from "../../local/shard-directories.ts";
import { type Column, tableLines } from "../../terminal/table.ts";
import { bytes, count } from "../../terminal/units.ts";

const recordsDefault = 20;
const recordsOfTask = 1000;

export async function inspect(call: Call): Promise<number> {
  const { config } = await serverConfig(call);
  const found: Found[] = [];
  for (const store of chosenStores(call, dataDirectoryOf(call, config))) {
    found.push(await inspectStore(call, store));
  }
  show(call, found);
  const isDamaged = found.some(({ log }) => log.verdict.state === "damaged");
  return isDamaged ? exitCodes.data.code : exitCodes.ok.code;
}

/** The stores of all shards, or the one that `--shard` names. */
function chosenStores(call: Call, directory: string): StoreDirectory[] {
  const stores = storesIn(directory);
  const wanted = call.options.text("shard");
  if (wanted === undefined) return stores;
  const store = stores.find(({ shard }) => String(shard) === wanted);
  if (store !== undefined) return [store];
  const names = stores.flatMap(({ shard }) => shard ?? []).join(", ");
  throw new CliError(`there is no shard ${wanted} in ${directory}`, {
    exit: "usage",
    next: names === "" ? "remove --shard: the data has one log" : `there are ${names}`,
  });
}

async function inspectStore(call: Call, store: StoreDirectory): Promise<Found> {
  const { inspectLog, ReadOnlyDisk, readLog } = await import("@codeq/server/data-dir");
  const directory = join(store.directory, "log");
  if (!existsSync(directory)) {
    throw new CliError(`there is no log in ${directory}`, {
      exit: "data",
      next: "set the data directory with --data-dir; codeq dev uses .codeq/data",
    });
  }
  const disk = new ReadOnlyDisk(directory);
  const log = await inspectLog(disk);
  const chosen = choose(call, log);
  const records: InspectedRecord[] = [];
  if (chosen.limit > 0) {
    for await (const record of readLog(disk, log.segments, chosen.from)) {
      if (!chosen.wants(record)) continue;
      records.push(record);
      if (records.length === chosen.limit) break;
    }
  }
  return { store, directory, log, records };
}

interface Choice {
  readonly from: number;
  readonly limit: number;
  readonly wants: (record: InspectedRecord) => boolean;
}

/** By default the last records; with options those that change a task, or those from an index on. */
function choose(call: Call, { segments }: InspectedLog): Choice {
  const { options } = call;
  const max = Number.MAX_SAFE_INTEGER;
  const first = segments[0]?.firstIndex ?? 1;
  const last = segments.findLast(({ lastIndex, firstIndex }) => lastIndex >= firstIndex)?.lastIndex;
  const task = options.text("task");
  const from = options.wholeNumber("from", { min: 1, max });
  const limit =
    options.wholeNumber("limit", { min: 0, max }) ??
    (task === undefined ? recordsDefault : recordsOfTask);
  const begin = task === undefined ? Math.max(first, (last ?? 0) - limit + 1) : first;
  return {
    from: from ?? begin,
    limit,
    wants: (record) =>
      task === undefined || record.ops?.some(({ key }) => key.includes(task)) !== false,
  };
}

interface Found {
  readonly store: StoreDirectory;
  readonly directory: string;
  readonly log: InspectedLog;
  readonly records: readonly InspectedRecord[];
}

/** One object for one log, as for a server without shards; a list of them for several. */
function show(call: Call, found: readonly Found[]): void {
  if (call.json) {
    const logs = found.map((each) => asJson(call, each));
    const [only] = logs;
    call.printJson(logs.length === 1 ? only : { logs });
    return;
  }
  for (const [position, each] of found.entries()) {
    if (position > 0) call.print("");
    showLog(call, each);
  }
}

const withOps = ({ options }: Call): boolean => options.has("ops") || options.has("task");

function asJson(call: Call, { store, directory, log, records }: Found): object {
  const shown = records.map(({ ops, timeMs, ...record }) => ({
    ...record,
    time: new Date(timeMs).toISOString(),
    ...(withOps(call) ? { ops } : {}),
  }));
  return { shard: store.shard, directory, ...log, records: shown };
}

function showLog(call: Call, { store, directory, log, records }: Found): void {
  const name = storeName(store);
  call.print(name === "" ? directory : `${name}: ${directory}`);
  call.print("");
  for (const line of tableLines(segmentColumns, log.segments, call.style)) call.print(line);
  call.print("");
  call.print(verdictText(call, log));
  if (records.length === 0) return;
  const [head = "", ...lines] = tableLines(recordColumns, records, call.style);
  call.print("");
  call.print(head);
  for (const [position, line] of lines.entries()) {
    call.print(line);
    if (!withOps(call)) continue;
    for (const op of opLines(call, records[position]?.ops)) call.print(`    ${op}`);
  }
}

const opsShown = 20;
type OpKind = NonNullable<InspectedRecord["ops"]>[number]["kind"];
const kindTexts: Readonly<Record<OpKind, string>> = {
  put: "put        ",
  create: "create     ",
  delete: "delete     ",
  rowCreated: "create task",
  rowChanged: "change task",
  rowDeleted: "delete task",
};

/** The operations on the wanted task, or the first ones. */
function opLines(call: Call, ops: InspectedRecord["ops"]): string[] {
  if (ops === undefined) return [call.style.red("cannot be read by this version")];
  const task = call.options.text("task");
  const wanted = task === undefined ? ops : ops.filter(({ key }) => key.includes(task));
  const lines = wanted.slice(0, opsShown).map(({ kind, key, valueBytes }) => {
    const isGone = kind === "delete" || kind === "rowDeleted";
    const size = isGone ? "" : ` ${call.style.dim(bytes(valueBytes))}`;
    return `${kindTexts[kind]} ${key}${size}`;
  });
  const more = wanted.length - lines.length;
  return more === 0 ? lines : [...lines, call.style.dim(`and ${count(more)} more`)];
}

function verdictText(call: Call, { verdict }: InspectedLog): string {
  const { style } = call;
  switch (verdict.state) {
    case "sound":
      return style.green("sound");
    case "cut": {
      const { segment, offset, index, recordsDropped } = verdict.cut;
      const others = recordsDropped === 0 ? "" : ` and ${recordsDropped} after it`;
      return style.yellow(
        `ends with an incomplete record: ${index}${others}, offset ${offset} of ${segment}. ` +
          "The next start removes it. If a server is running, it may be writing the record right now.",
      );
    }
    case "damaged":
      return style.red(verdict.problem);
  }
}

const segmentColumns: readonly Column<InspectedLog["segments"][number]>[] = [
  { title: "SEGMENT", show: ({ name }) => name },
  { title: "RECORDS", align: "right", show: (each) => count(each.lastIndex - each.firstIndex + 1) },
  { title: "LAST", align: "right", show: ({ lastIndex }) => String(lastIndex) },
  { title: "USED", align: "right", show: ({ usedBytes }) => bytes(usedBytes) },
  { title: "FILE", align: "right", show: ({ fileBytes }) => bytes(fileBytes) },
];

const recordColumns: readonly Column<InspectedRecord>[] = [
  { title: "INDEX", align: "right", show: ({ index }) => String(index) },
  { title: "TIME", show: ({ timeMs }) => new Date(timeMs).toISOString() },
  { title: "CHANGES", align: "right", show: ({ opCount }) => count(opCount) },
  { title: "SIZE", align: "right", show: (record) => bytes(record.bytes) },
  { title: "UNSYNCED", align: "right", show: ({ unsyncedBefore }) => String(unsyncedBefore) },
  { title: "OFFSET", align: "right", show: ({ offset }) => String(offset) },
];
