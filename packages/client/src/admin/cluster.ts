/** A log of a cluster, and who leads it. */
export interface HandedOff {
  /** The number of the shard, or `control` for the log of API keys and other records. */
  readonly shard: string;
  /** The node that led before. */
  readonly from: string;
  /** The node that leads now. */
  readonly to: string;
}

/** How far a new node is. */
export interface AddedNode {
  /** `absent` until the node answers, `copying` until it follows every log. */
  readonly state: "absent" | "copying" | "added";
  readonly logs: readonly {
    /** The number of the shard, or `control`. */
    readonly shard: string;
    readonly role: string;
    /** How many records the node has not read yet, about. */
    readonly behind: number;
  }[];
  /** What `clusterMembers` is to be on every node. */
  readonly members: string;
  /** Nodes that have another list, or did not answer. */
  readonly outdated: readonly string[];
}

/** How far a node is that is taken out of the cluster. */
export interface RemovedNode {
  /** `moving` while other log servers copy its logs; `stop` when the node can be stopped. */
  readonly state: "moving" | "stop" | "removed";
  /** The shards whose logs are being moved. */
  readonly moving: readonly string[];
  /** What `clusterMembers` is to be on every node. */
  readonly members: string;
  /** Nodes that have another list, or did not answer. */
  readonly outdated: readonly string[];
}

/** Options of `repairCluster()`: what to repair, and from which copy. */
export interface RepairOptions {
  /** The number of a shard, or `control`; default: all of them. */
  readonly shard?: string;
  /** Nodes that are permanently lost. */
  readonly without?: readonly string[];
  /** The node whose data counts; default: the newest. */
  readonly from?: string;
  /** Whether to repair; default: only say what would be done. */
  readonly confirm?: boolean;
}

/** What the nodes have of a log, and what a repair does about it. */
export interface RepairedLog {
  /** The number of the shard, or `control`. */
  readonly shard: string;
  /**
   * `copy`: nodes put their data aside and copy that of another; `renew`: a new log continues the data of one node.
   */
  readonly action: "none" | "copy" | "renew" | "refused";
  readonly done: boolean;
  /** The node whose data is continued. */
  readonly from?: string;
  /** The nodes that copy. */
  readonly nodes?: readonly string[];
  /** Why it cannot be repaired. */
  readonly why?: string;
  readonly copies: readonly {
    readonly node: string;
    readonly following: boolean;
    readonly damaged: boolean;
    readonly logId?: number;
    readonly epoch?: number;
    readonly slot?: number;
  }[];
}
