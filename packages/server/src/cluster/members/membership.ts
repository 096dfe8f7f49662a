/**
 * Adds a node to a cluster and removes one, step by step: each call does the next step and reports the progress,
 * and every step can be repeated. The list of nodes is a setting of each node (`clusterMembers`); the answers name
 * the nodes that still have another list.
 */
import type { LeaderName } from "@codeq/engine";
import type { HandedOff, WantedHandOff } from "../cluster-node.ts";
import type { LogStatus, ReplicaReport } from "../node-log.ts";
import { nameOf } from "../replicated-shard.ts";

/** The report of a node about itself. */
export interface NodeReport {
  readonly id: string;
  readonly members: readonly LeaderName[];
  readonly logs: readonly ReplicaReport[];
}

/** A server that keeps the logs: a member of etcd. */
export interface LogServer {
  /** The id of its node. */
  readonly name: string;
  readonly isOnline: boolean;
  /** It copies the data, and does not count for a majority yet. */
  readonly isLearner: boolean;
}

/** The servers that keep the logs. */
export interface LogServers {
  /** Undefined when codeQ does not run the log servers. */
  servers(): Promise<readonly LogServer[] | undefined>;
  removeServer(server: string): Promise<void>;
}

/** The cluster, as the node that was asked sees it. */
export interface MembershipParts {
  readonly self: LeaderName;
  readonly nodes: readonly LeaderName[];
  /** The numbers of all logs. */
  readonly logs: readonly number[];
  readonly logServers: LogServers;
  readonly statusOf: (shard: number) => LogStatus;
  /** Undefined when the node does not answer. */
  readonly report: (node: LeaderName) => Promise<NodeReport | undefined>;
  readonly handOff: (wanted: WantedHandOff) => Promise<readonly HandedOff[] | NotChanged>;
}

export interface LogProgress {
  readonly shard: number;
  readonly role: LogStatus["role"];
  /** About how many records the node has not read yet. */
  readonly behind: number;
}

export interface AddedNode {
  /** `absent`: it does not answer; `copying`: it does not follow every log yet; `added`. */
  readonly state: "absent" | "copying" | "added";
  readonly logs: readonly LogProgress[];
  /** The value that `clusterMembers` should have on all nodes. */
  readonly members: readonly LeaderName[];
  /** Nodes that have another list, or did not answer. */
  readonly outdated: readonly string[];
}

export interface RemovedNode {
  /** `stop`: it leads nothing and can be stopped now; `removed`. */
  readonly state: "stop" | "removed";
  readonly members: readonly LeaderName[];
  readonly outdated: readonly string[];
}

/** Why the change is not possible. */
export interface NotChanged {
  readonly code: "invalid_argument" | "node_not_ready" | "too_few_nodes";
  readonly why: string;
}

/** With fewer log servers, the loss of one stops the cluster. */
const serversMin = 3;
const wholeRoles: ReadonlySet<LogStatus["role"]> = new Set([
  "following",
  "candidate",
  "opening",
  "leading",
  "steppingDown",
]);

/** Whether a node has everything of a log, except records that it is about to read. */
export function isWhole({ role }: Pick<ReplicaReport, "role">): boolean {
  return wholeRoles.has(role);
}

export async function addNode(
  parts: MembershipParts,
  node: LeaderName,
): Promise<AddedNode | NotChanged> {
  const clash = parts.nodes.find(({ id, address }) => id === node.id || address === node.address);
  if (clash !== undefined && (clash.id !== node.id || clash.address !== node.address)) {
    return invalid(`${clash.id}=${clash.address} is a node of this cluster already`);
  }
  const members = [...(await withoutRemoved(parts, node.id)), node];
  const report = await parts.report(node);
  if (report === undefined) return { state: "absent", logs: [], members, outdated: [] };
  if (report.id !== node.id) {
    return invalid(`the node at ${node.address} has nodeId ${report.id}, not ${node.id}`);
  }
  const logs = report.logs.map((log) => progressOf(parts, log));
  const hasServer = await isServerOf(parts, node.id);
  if (!hasServer || !report.logs.every(isWhole)) {
    return { state: "copying", logs, members, outdated: [] };
  }
  return { state: "added", logs, members, outdated: await outdatedOf(parts, members) };
}

/** The other nodes, but for those that were removed and that the settings of this node still name. */
async function withoutRemoved(
  { nodes, logServers, report }: MembershipParts,
  added: string,
): Promise<readonly LeaderName[]> {
  const others = nodes.filter(({ id }) => id !== added);
  const servers = await logServers.servers();
  if (servers === undefined) return others;
  const names = new Set(servers.map(({ name }) => name));
  const isThere = await Promise.all(
    others.map(async (node) => names.has(node.id) || (await report(node)) !== undefined),
  );
  return others.filter((_, at) => isThere[at]);
}

export async function removeNode(
  parts: MembershipParts,
  id: string,
): Promise<RemovedNode | NotChanged> {
  const servers = await parts.logServers.servers();
  const node = parts.nodes.find((each) => each.id === id);
  const server = servers?.find(({ name }) => name === id);
  if (node === undefined && server === undefined) {
    const ids = parts.nodes.map((each) => each.id).join(", ");
    return invalid(`there is no node ${id}; the nodes are ${ids}`);
  }
  if (id === parts.self.id) {
    return invalid(`node ${id} cannot remove itself; ask another node`);
  }
  const refused = (await tooFewCopies(parts, id)) ?? tooFewServers(id, servers);
  if (refused !== undefined) return refused;
  const report = node === undefined ? undefined : await parts.report(node);
  if (report !== undefined) await handOver(parts, id);
  const members = parts.nodes.filter((each) => each.id !== id);
  const isUp = report !== undefined || server?.isOnline === true;
  if (isUp) return { state: "stop", members, outdated: [] };
  if (server !== undefined) await parts.logServers.removeServer(id);
  return { state: "removed", members, outdated: await outdatedOf(parts, members) };
}

/** Why a node cannot lead these logs now, if so. */
export function notReady(
  id: string,
  report: NodeReport | undefined,
  shards: readonly number[],
): NotChanged | undefined {
  const code = "node_not_ready";
  if (report === undefined) {
    return { code, why: `node ${id} does not answer. Start it, or name another node` };
  }
  const followed = new Set(report.logs.filter(isWhole).map(({ shard }) => shard));
  const missing = shards.find((shard) => !followed.has(shard));
  if (missing === undefined) return undefined;
  const why =
    `node ${id} does not follow ${nameOf(missing)}. Wait until \`codeq cluster status\` shows that it does, ` +
    "or name another node";
  return { code, why };
}

function invalid(why: string): NotChanged {
  return { code: "invalid_argument", why };
}

function progressOf({ statusOf }: MembershipParts, report: ReplicaReport): LogProgress {
  const { shard, role, stored } = report;
  return { shard, role, behind: Math.max(0, statusOf(shard).slot - (stored?.slot ?? 0)) };
}

async function isServerOf({ logServers }: MembershipParts, id: string): Promise<boolean> {
  const servers = await logServers.servers();
  const isIn = (server: LogServer): boolean =>
    server.name === id && server.isOnline && !server.isLearner;
  return servers?.some(isIn) ?? true;
}

async function outdatedOf(
  { report }: MembershipParts,
  members: readonly LeaderName[],
): Promise<readonly string[]> {
  const listed = textOf(members);
  const reports = await Promise.all(members.map(report));
  return members
    .filter((_, at) => textOf(reports[at]?.members ?? []) !== listed)
    .map(({ id }) => id);
}

function textOf(members: readonly LeaderName[]): string {
  const list = members.map(({ id, address }) => `${id}=${address}`);
  return list.sort().join(",");
}

/** The copy of a removed node must not be the only whole copy. */
async function tooFewCopies(
  { nodes, logs, report }: MembershipParts,
  id: string,
): Promise<NotChanged | undefined> {
  const others = nodes.filter((each) => each.id !== id);
  const reports = await Promise.all(others.map(report));
  const missing = logs.find((shard) => {
    const copies = reports.flatMap((each) => each?.logs.filter((log) => log.shard === shard) ?? []);
    return !copies.some(isWhole);
  });
  if (missing === undefined) return undefined;
  const why =
    `no other node has a whole copy of ${nameOf(missing)}. Start the other nodes, and wait until ` +
    "`codeq cluster status` shows that they follow";
  return { code: "too_few_nodes", why };
}

/**
 * A server that is down does not count already, so the others do better without it as long as they are a majority. One
 * that is up is only removed when enough are left.
 */
function tooFewServers(
  id: string,
  servers: readonly LogServer[] | undefined,
): NotChanged | undefined {
  const server = servers?.find(({ name }) => name === id);
  if (servers === undefined || server === undefined || server.isLearner) return undefined;
  const others = servers.filter(({ name, isLearner }) => name !== id && !isLearner);
  const left = others.filter(({ isOnline }) => isOnline).length;
  const needed = server.isOnline ? serversMin : Math.floor(others.length / 2) + 1;
  if (left >= needed) return undefined;
  const why = server.isOnline
    ? `without ${id} there are ${left} log servers, so one more failure would stop the cluster. Add another node ` +
      "first (codeq cluster add)"
    : `without ${id}, ${left} of ${others.length} log servers are up, which is no majority. Start the others first`;
  return { code: "too_few_nodes", why };
}

async function handOver(
  { self, logs, statusOf, handOff }: MembershipParts,
  id: string,
): Promise<void> {
  const led = logs.filter((shard) => statusOf(shard).leader?.id === id);
  for (const shard of led) {
    const to = isWhole(statusOf(shard)) ? self.id : undefined;
    await handOff({ shard, to });
  }
}
