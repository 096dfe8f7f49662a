/**
 * Repairs logs of a cluster whose log servers lost records, and the data of nodes that cannot follow their log.
 * Without confirmation it only reports what it found and would do. Nodes move the data that they give up aside.
 */
import { FaultError, type LeaderName } from "@codeq/engine";
import type { FoundLog } from "@codeq/engine/etcd";
import type { StoredPosition } from "../node-log.ts";
import { isWhole, type NodeReport } from "./membership.ts";
import { type FoundCopy, newest, planRepair, type RepairPlan } from "./repair-plan.ts";

export interface RepairParts {
  readonly nodes: readonly LeaderName[];
  readonly look: (shard: number) => Promise<FoundLog | undefined>;
  /**
   * Replaces a log that was found, or that is gone, by an empty one; false when it has changed since. May be repeated
   * when the result of a call is unknown.
   */
  readonly renewLog: (shard: number, found: FoundLog | undefined, log: NewLog) => Promise<boolean>;
  readonly drawLogId: () => number;
  /** Undefined when the node does not answer. */
  readonly report: (node: LeaderName) => Promise<NodeReport | undefined>;
  /** Gives a node an order; throws when the node does not carry it out. */
  readonly order: (node: LeaderName, order: RepairOrder) => Promise<unknown>;
  readonly pause: () => Promise<void>;
}

export interface NewLog {
  readonly logId: number;
  readonly firstSlot: number;
}

/** The orders of a repair to a node. */
export type RepairOrder =
  /** Abandon the log, and return the place that the data has reached. */
  | { readonly kind: "halt"; readonly shard: number }
  /** Switch the data to another log. */
  | { readonly kind: "moveToLog"; readonly shard: number; readonly logId: number }
  | { readonly kind: "resume"; readonly shard: number }
  /** Move the data aside, and copy that of another node, which follows this log. */
  | { readonly kind: "replace"; readonly shard: number; readonly logId: number };

export interface WantedRepair {
  /** The logs to repair. */
  readonly shards: readonly number[];
  /** Nodes that are permanently lost. */
  readonly without: readonly string[];
  /** The node whose data counts; undefined for the newest. */
  readonly from: string | undefined;
  readonly isConfirmed: boolean;
}

export interface RepairedLog {
  readonly shard: number;
  readonly plan: RepairPlan;
  readonly copies: readonly FoundCopy[];
  readonly isDone: boolean;
}

/** A turn is a pause of 20 ms. */
const followTurnsMax = 3000;
const renewGapTurns = 25;
const renewTimesMax = 40;

export async function repair(
  parts: RepairParts,
  wanted: WantedRepair,
): Promise<readonly RepairedLog[]> {
  const reports = await Promise.all(parts.nodes.map(parts.report));
  const absent = parts.nodes
    .filter(({ id }, at) => reports[at] === undefined && !wanted.without.includes(id))
    .map(({ id }) => id);
  const planned = await Promise.all(
    wanted.shards.map(async (shard) => {
      const copies = reports.flatMap((report) => (report ? copyOf(report, shard) : []));
      const plan = await planOf(parts, shard, { copies, absent, from: wanted.from });
      return { shard, copies, plan };
    }),
  );
  const repaired: RepairedLog[] = [];
  for (const each of planned) {
    const { action } = each.plan;
    const isDone = wanted.isConfirmed && (action === "copy" || action === "renew");
    if (isDone) await carryOut(parts, each, wanted.from !== undefined);
    repaired.push({ ...each, isDone });
  }
  return repaired;
}

function copyOf({ id, logs }: NodeReport, shard: number): FoundCopy[] {
  return logs
    .filter((log) => log.shard === shard)
    .map((log) => ({
      node: id,
      isFollowing: isWhole(log),
      hasDiverged: log.role === "diverged",
      stored: log.stored,
      isDamaged: log.isDamaged,
    }));
}

/** Reads the log after the nodes, so that no node can have read more than the log has. */
async function planOf(
  { look }: RepairParts,
  shard: number,
  found: Omit<Parameters<typeof planRepair>[0], "log">,
): Promise<RepairPlan> {
  try {
    // Servers that elect a leader do not answer for some seconds.
    const log = await look(shard).catch(() => look(shard));
    const there = log === undefined ? undefined : { logId: log.logId, ...log.bounds };
    return planRepair({ ...found, log: there });
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    return { action: "refused", why: error.message };
  }
}

async function carryOut(
  parts: RepairParts,
  { shard, plan }: Pick<RepairedLog, "shard" | "plan">,
  isChosen: boolean,
): Promise<void> {
  if (plan.action === "copy") await replaceAll(parts, shard, plan);
  if (plan.action === "renew") await renew(parts, shard, { ...plan, isChosen });
}

async function replaceAll(
  { nodes, order }: RepairParts,
  shard: number,
  { nodes: ids, logId }: { readonly nodes: readonly string[]; readonly logId: number },
): Promise<void> {
  const wrong = nodes.filter(({ id }) => ids.includes(id));
  await Promise.all(wrong.map((node) => order(node, { kind: "replace", shard, logId })));
}

async function renew(
  parts: RepairParts,
  shard: number,
  plan: {
    readonly from: string;
    readonly nodes: readonly string[];
    /** An operator has decided for the data of the node. */
    readonly isChosen: boolean;
  },
): Promise<void> {
  const { order } = parts;
  const nodes = parts.nodes.filter(({ id }) => id === plan.from || plan.nodes.includes(id));
  try {
    const halted = await Promise.all(
      nodes.map(async (node) => {
        const stored = (await order(node, { kind: "halt", shard })) as StoredPosition | null;
        return { node, stored: stored ?? undefined };
      }),
    );
    // The nodes have written their memory to disk only now.
    const from = nodes.find(({ id }) => id === plan.from) as LeaderName;
    const own = halted.find(({ node }) => node === from);
    const isLike = halted.filter(({ stored }) => stored?.logId === own?.stored?.logId);
    const best = newest(isLike) ?? own;
    if (best?.stored === undefined) throw new FaultError("corrupt", "no node has data of this log");
    // The plan is some time old: the log is replaced only as it is now, while no node writes to it.
    const found = await parts.look(shard);
    if (!plan.isChosen) assertLost(found, best.stored);
    const logId = parts.drawLogId();
    await order(best.node, { kind: "moveToLog", shard, logId });
    await renewLog(parts, shard, found, { logId, firstSlot: best.stored.slot + 1 });
    await order(best.node, { kind: "resume", shard });
    await untilFollowed(parts, shard, best.node, logId);
    const ids = nodes.filter((node) => node !== best.node).map(({ id }) => id);
    await replaceAll(parts, shard, { nodes: ids, logId });
  } catch (error) {
    await Promise.allSettled(nodes.map((node) => order(node, { kind: "resume", shard })));
    throw error;
  }
}

/** Throws unless the log has lost what this copy has. */
function assertLost(found: FoundLog | undefined, stored: StoredPosition): void {
  if (found === undefined || found.logId !== stored.logId || found.bounds.last < stored.slot)
    return;
  throw new FaultError("storage_failed", "the log is whole again; nothing was changed");
}

/** Retries, because log servers that elect a leader do not answer for some seconds. */
async function renewLog(
  { renewLog: renew, pause }: RepairParts,
  shard: number,
  found: FoundLog | undefined,
  log: NewLog,
): Promise<void> {
  for (let times = 1; ; times += 1) {
    try {
      if (await renew(shard, found, log)) return;
      throw new FaultError("corrupt", "the log has changed meanwhile");
    } catch (error) {
      const isSilent = error instanceof FaultError && error.code === "storage_failed";
      if (!isSilent || times === renewTimesMax) throw error;
    }
    for (let turns = 0; turns < renewGapTurns; turns += 1) await pause();
  }
}

async function untilFollowed(
  { report, pause }: RepairParts,
  shard: number,
  node: LeaderName,
  logId: number,
): Promise<void> {
  for (let turns = 0; turns < followTurnsMax; turns += 1) {
    const log = (await report(node))?.logs.find((each) => each.shard === shard);
    if (log !== undefined && isWhole(log) && log.stored?.logId === logId) return;
    await pause();
  }
  throw new FaultError("storage_failed", `node ${node.id} does not follow the new log`);
}
