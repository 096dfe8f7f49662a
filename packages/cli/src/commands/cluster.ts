/**
 * `cluster`: the nodes of a cluster and the leader of each shard, as one node sees them; hand over, add and remove
 * nodes, repair logs, end the cluster, and convert the data of a single server for a cluster and back.
 */
import type { RepairedLog } from "@codeq/client";
import type { ReplyOf } from "@codeq/client/command-line";
import type { ClusterDataParts, ConvertedData } from "@codeq/server/data-dir";
import type { ApiClient } from "../api/api-client.ts";
import { ask } from "../api/contract-commands.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { pause } from "../host.ts";
import { dataDirectoryOf, serverConfig, throwFault } from "../local/data-directory.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { counted } from "../terminal/units.ts";

type Cluster = ReplyOf<"GET /cluster">;
interface Log extends NonNullable<Cluster["control"]> {
  readonly shard: number | "control";
}

const runsAlone = "this server runs alone; it is no node of a cluster";
const ofLogs: readonly Column<Log>[] = [
  { title: "shard", align: "right", show: ({ shard }) => String(shard) },
  { title: "leader", show: ({ leader }) => leader ?? "none" },
  { title: "this node", show: ({ role }) => role },
  { title: "epoch", align: "right", show: ({ epoch }) => String(epoch) },
  { title: "slot", align: "right", show: ({ slot }) => String(slot) },
  { title: "silent ms", align: "right", show: ({ silentMs }) => String(silentMs) },
  { title: "problem", show: ({ problem }) => problem ?? "" },
];

const ofNodes: readonly Column<Cluster["nodes"][number]>[] = [
  { title: "node", show: ({ id }) => id },
  { title: "address", show: ({ address }) => address },
  { title: "", show: ({ up }) => (up ? "up" : "down") },
  { title: "behind", align: "right", show: ({ behind }) => String(behind ?? "") },
  { title: "problem", show: ({ problem }) => problem ?? "" },
];
const ofServers: readonly Column<Cluster["logServers"][number]>[] = [
  { title: "log server", show: ({ name }) => name },
  { title: "", show: ({ up }) => (up ? "up" : "down") },
  { title: "role", show: (server) => roleOf(server) },
  { title: "version", show: ({ version }) => version ?? "" },
  { title: "MB used", align: "right", show: ({ usedBytes }) => megabytes(usedBytes) },
  { title: "problem", show: ({ problem }) => problem ?? "" },
];

function roleOf({ up, leading, learning }: Cluster["logServers"][number]): string {
  if (learning) return "copying";
  if (!up) return "";
  return leading ? "leading" : "following";
}

function megabytes(bytes: number | undefined): string {
  return bytes === undefined ? "" : (bytes / 1_000_000).toFixed(1);
}

export async function status(call: Call): Promise<number> {
  const { value: cluster } = await ask(call, "GET /cluster");
  if (call.json) call.printJson(cluster);
  else if (!cluster.enabled) call.print(runsAlone);
  else {
    call.print(`as node ${cluster.self} sees it`);
    for (const line of tableLines(ofNodes, cluster.nodes, call.style)) call.print(line);
    for (const line of tableLines(ofServers, cluster.logServers, call.style)) call.print(line);
    for (const line of tableLines(ofLogs, logsOf(cluster), call.style)) call.print(line);
  }
  const isHealthy = logsOf(cluster).every(({ leader }) => leader !== undefined);
  return isHealthy ? exitCodes.ok.code : exitCodes.taskFailed.code;
}

function logsOf({ shards, control }: Cluster): readonly Log[] {
  return control === undefined ? shards : [...shards, { shard: "control", ...control }];
}

export async function handoff(call: Call): Promise<void> {
  const { options } = call;
  const body = { shard: options.text("shard"), to: options.text("to") };
  const { shards } = (await ask(call, "POST /admin/cluster/handoff", { body })).value;
  if (call.json) call.printJson({ shards });
  else {
    if (shards.length === 0) call.print(runsAlone);
    for (const { shard: name, from, to: next } of shards) {
      const what = logName(name);
      call.print(from === next ? `${next} leads ${what} already` : `${next} leads ${what} now`);
    }
  }
}

/** What people call a log. */
function logName(shard: string): string {
  return shard === "control" ? "the control log" : `shard ${shard}`;
}

export async function end(call: Call): Promise<void> {
  if (!call.options.has("yes")) {
    throw usageError("the cluster accepts nothing after its end", "codeq cluster end --yes");
  }
  const body = { confirm: true };
  const { ended } = (await ask(call, "POST /admin/cluster/end", { body })).value;
  if (call.json) call.printJson({ ended });
  else if (ended)
    call.print("the cluster has ended; stop it, and run codeq cluster leave on a node");
  else call.print(runsAlone);
}

const againMs = 1000;

export function add(call: Call): Promise<number> {
  return addNode(call, call.word(0));
}

export function remove(call: Call): Promise<number> {
  return removeNode(call, call.word(0));
}

/** A lost node counts against the majority, so it goes first. */
export async function replace(call: Call): Promise<number> {
  const code = await removeNode(call, call.word(0));
  return code === exitCodes.ok.code ? await addNode(call, call.word(1)) : code;
}

async function addNode(call: Call, node: string): Promise<number> {
  return await follow(call, {
    ask: (api) => api.call("POST /admin/cluster/add", { body: { node } }),
    isDone: ({ state }) => state === "added",
    textOf: ({ state, logs, members }) => {
      if (state === "absent") {
        return `${node} does not answer yet; start it with clusterMembers: ${members}`;
      }
      const late = logs.filter(({ role }) => role === "waiting" || role === "behind");
      const names = late.map(({ shard }) => logName(shard)).join(", ");
      return names === "" ? "the log servers take the new one in" : `the node copies ${names}`;
    },
    doneText: () => `${node} is a node of the cluster`,
  });
}

async function removeNode(call: Call, node: string): Promise<number> {
  return await follow(call, {
    ask: (api) => api.call("POST /admin/cluster/remove", { body: { node } }),
    isDone: ({ state }) => state === "removed",
    textOf: () => `node ${node} leads nothing; stop it now`,
    doneText: () => `node ${node} was removed; do not start it again with its old settings`,
  });
}

type Members = ReplyOf<"POST /admin/cluster/add" | "POST /admin/cluster/remove">;

interface Steps<T> {
  readonly ask: (api: ApiClient) => Promise<{ readonly value: T }>;
  readonly isDone: (answer: T) => boolean;
  /** What there is to say while it is not done. */
  readonly textOf: (answer: T) => string;
  readonly doneText: () => string;
}

/** Asks until it is done, or until the user stops the command, which may be run again. */
async function follow<T extends Members>(call: Call, steps: Steps<T>): Promise<number> {
  const api = await call.api();
  const stopped = call.host.stopped();
  let said = "";
  while (!stopped.aborted) {
    const { value: answer } = await steps.ask(api);
    if (steps.isDone(answer)) {
      if (call.json) call.printJson(answer);
      else printDone(call, steps.doneText(), answer);
      return exitCodes.ok.code;
    }
    const now = steps.textOf(answer);
    if (now !== said) call.note(now);
    said = now;
    await pause(call.host.clock, againMs, stopped);
  }
  call.note("stopped; run the command again to go on");
  return exitCodes.taskFailed.code;
}

function printDone(call: Call, text: string, { members, outdated }: Members): void {
  call.print(text);
  if (outdated.length === 0) return;
  call.print(`set clusterMembers: ${members}`);
  call.print(`on ${outdated.join(", ")}, and restart these nodes one after the other`);
}

interface CopyRow {
  readonly shard: string;
  readonly copy: RepairedLog["copies"][number];
}

const ofCopies: readonly Column<CopyRow>[] = [
  { title: "shard", align: "right", show: ({ shard }) => shard },
  { title: "node", show: ({ copy }) => copy.node },
  { title: "data", show: ({ copy }) => dataOf(copy) },
  { title: "log", align: "right", show: ({ copy }) => String(copy.logId ?? "") },
  { title: "epoch", align: "right", show: ({ copy }) => String(copy.epoch ?? "") },
  { title: "slot", align: "right", show: ({ copy }) => String(copy.slot ?? "") },
];

export async function repair(call: Call): Promise<number> {
  const { options } = call;
  const body = {
    shard: options.text("shard"),
    without: options.list("without"),
    from: options.text("from"),
    confirm: options.has("yes"),
  };
  const { logs } = (await ask(call, "POST /admin/cluster/repair", { body })).value;
  if (call.json) call.printJson({ logs });
  else showLogs(call, logs);
  const isLeft = logs.some(({ action, done }) => action !== "none" && !done);
  return isLeft ? exitCodes.taskFailed.code : exitCodes.ok.code;
}

function showLogs(call: Call, logs: readonly RepairedLog[]): void {
  const rows = logs.flatMap(({ shard, copies }) => copies.map((copy) => ({ shard, copy })));
  for (const line of tableLines(ofCopies, rows, call.style)) call.print(line);
  for (const log of logs) call.print(`${logName(log.shard)}: ${actionOf(log)}`);
  if (logs.some(({ action, done }) => !done && (action === "copy" || action === "renew"))) {
    call.print("nothing was changed; run codeq cluster repair --yes to do this");
  }
}

function dataOf({ following, damaged, logId }: CopyRow["copy"]): string {
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

export async function init(call: Call): Promise<void> {
  const { initCluster } = await import("@codeq/server/data-dir");
  const next = "start this node with --cluster-bootstrap, then the others";
  return converted(call, initCluster, next);
}

export async function leave(call: Call): Promise<void> {
  const { leaveCluster } = await import("@codeq/server/data-dir");
  return converted(call, leaveCluster, "start the server without the settings of the cluster");
}

async function converted(
  call: Call,
  convert: (parts: ClusterDataParts) => Promise<ConvertedData>,
  next: string,
): Promise<void> {
  const { config: given } = await serverConfig(call);
  const config = { ...given, dataDir: dataDirectoryOf(call, given) };
  try {
    const done = await convert({ config, clock: call.host.clock });
    if (call.json) call.printJson(done);
    else {
      call.print(`${counted(done.shards, "shard")}, ${counted(done.entries, "record")}`);
      call.print(`the files as they were are in ${done.before}`);
      call.print(next);
    }
  } catch (error) {
    return throwFault(error);
  }
}
