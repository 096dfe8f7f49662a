/**
 * Decides how to repair one log, from what the log servers and the nodes have. A copy that may be the only whole one
 * is never discarded: a node gives up its copy only when another node has everything that the log has, and a log is
 * replaced only when it has lost records, by a log that continues the newest copy.
 */
import type { StoredPosition } from "../node-log.ts";

export interface FoundCopy {
  readonly node: string;
  /** Whether the node reads the log, or leads it. */
  readonly isFollowing: boolean;
  /** Whether the node found that the log is not the one that it had read. */
  readonly hasDiverged: boolean;
  /** Undefined when the node has nothing. */
  readonly stored: StoredPosition | undefined;
  readonly isDamaged: boolean;
}

export interface FoundState {
  /** As a majority of the log servers knows it; undefined when it is gone. */
  readonly log:
    | { readonly logId: number; readonly first: number; readonly last: number }
    | undefined;
  readonly copies: readonly FoundCopy[];
  /** Nodes that did not answer, and may have newer data. */
  readonly absent: readonly string[];
  /** The node whose data the operator has chosen; undefined for the newest. */
  readonly from?: string | undefined;
}

export type RepairPlan =
  | { readonly action: "none" }
  /** The log is whole; these nodes put their data aside and copy from another. */
  | { readonly action: "copy"; readonly nodes: readonly string[]; readonly logId: number }
  /** The log lost records; a new one continues the data of this node, and the others copy it. */
  | { readonly action: "renew"; readonly from: string; readonly nodes: readonly string[] }
  | { readonly action: "refused"; readonly why: string };

export function planRepair(found: FoundState): RepairPlan {
  const { log, copies, from } = found;
  if (from !== undefined) return continueWith(copies, from);
  if (log === undefined) return planNewLog(found);
  const ofLog = copies.filter(({ stored }) => stored?.logId === log.logId);
  const isShorter = ofLog.some(({ stored }) => (stored?.slot ?? 0) > log.last);
  const isHeld = ofLog.some(({ isFollowing, hasDiverged, isDamaged, stored }) => {
    const isWell = isFollowing && !hasDiverged && !isDamaged;
    const { slot = -1 } = stored ?? {};
    return isWell && slot + 1 >= log.first && slot <= log.last;
  });
  if (isHeld) return isShorter ? refuseFollowed(found, log.last) : planCopies(found, log.logId);
  const isEmpty = copies.every(({ stored, isDamaged }) => stored === undefined && !isDamaged);
  if (isEmpty) return { action: "none" };
  if (ofLog.length > 0) return planNewLog(found);
  const why =
    `the log servers have log ${log.logId}, which no node has followed. Check that etcdUrls and dataDir of the ` +
    "nodes belong to the same cluster";
  return { action: "refused", why };
}

/** The log continues without records that a node has; a new log would drop what came since. */
function refuseFollowed({ copies }: FoundState, last: number): RepairPlan {
  const ahead = copies.filter(({ stored }) => (stored?.slot ?? 0) > last).map(({ node }) => node);
  const why =
    `${ahead.join(" and ")} has read further than the log has (slot ${last}), while other nodes follow the log. Decide ` +
    "whose data counts (codeq cluster repair --from)";
  return { action: "refused", why };
}

function planCopies({ copies }: FoundState, logId: number): RepairPlan {
  const wrong = copies.filter(({ hasDiverged, stored, isDamaged }) => {
    return isDamaged || hasDiverged || (stored !== undefined && stored.logId !== logId);
  });
  if (wrong.length === 0) return { action: "none" };
  return { action: "copy", nodes: wrong.map(({ node }) => node), logId };
}

function planNewLog({ copies, absent }: FoundState): RepairPlan {
  const there = copies.filter(({ stored }) => stored !== undefined);
  const best = newest(there);
  if (best === undefined) {
    return { action: "refused", why: "no node has data of this log that can be read" };
  }
  const logIds = new Set(there.map(({ stored }) => stored?.logId));
  if (logIds.size > 1) {
    const list = there.map(({ node, stored }) => `${node}: log ${stored?.logId}`).join(", ");
    const why =
      `the nodes have data of different logs (${list}). Stop those that do not belong to this cluster, or decide ` +
      "for one of them (codeq cluster repair --from)";
    return { action: "refused", why };
  }
  if (absent.length > 0) {
    const why =
      `${absent.join(" and ")} did not answer, and may have newer data. Start them, or name them as lost ` +
      "(codeq cluster repair --without)";
    return { action: "refused", why };
  }
  return continueWith(copies, best.node);
}

function continueWith(copies: readonly FoundCopy[], from: string): RepairPlan {
  const isThere = copies.some(({ node, stored }) => node === from && stored !== undefined);
  if (!isThere) {
    return { action: "refused", why: `node ${from} has no data of this log, or did not answer` };
  }
  const nodes = copies.map(({ node }) => node).filter((node) => node !== from);
  return { action: "renew", from, nodes };
}

/** The most advanced copy. */
export function newest<T extends Pick<FoundCopy, "stored">>(copies: readonly T[]): T | undefined {
  let best: T | undefined;
  for (const copy of copies) {
    if (copy.stored !== undefined && isNewer(copy.stored, best?.stored)) best = copy;
  }
  return best;
}

function isNewer(stored: StoredPosition, than: StoredPosition | undefined): boolean {
  if (than === undefined || stored.epoch !== than.epoch) return stored.epoch > (than?.epoch ?? -1);
  return stored.slot > than.slot;
}
