/**
 * One log on a node: a kv that follows the log and, while this node leads, the part that leads on it. Shards and
 * the control log have different leading parts and messages.
 */
import {
  type DecodedOp,
  type Follower,
  type Kv,
  type LeaderLog,
  type LeaderName,
  type Leading,
  Replica,
  type ReplicaStatus,
  type ReplicaTiming,
  type SharedLog,
  snapshotOf,
} from "@codeq/engine";
import type { Clock } from "../core/clock.ts";
import { Store } from "../core/store/store.ts";
import type { Snapshot } from "./peers/peers.ts";
import type { Caller, Hosting } from "./replicated-shard.ts";

export interface LogReplicaParts {
  readonly shared: SharedLog;
  readonly kv: Kv;
  readonly self: LeaderName;
  /** The ids of all nodes. */
  readonly nodes: readonly string[];
  readonly rank: number;
  readonly clock: Clock;
  readonly drawWriter: () => number;
  readonly defer: (run: () => void) => void;
  /** Called when the role of this node, or the leader, has changed. */
  readonly onChange: () => void;
  /** Whether the disk of this node has less room than it should. */
  readonly isFull: () => Promise<boolean>;
  readonly timing?: ReplicaTiming | undefined;
}

/** Which log it is, and how its records are applied. */
export interface FollowedLog {
  /** The number of the shard in its records. */
  readonly shard: number;
  readonly kind: { readonly shards: number; readonly shard?: number | undefined };
  readonly flushBytes: number;
  /** Whether `applied` is called for every record. */
  readonly isHeard: boolean;
}

export abstract class LogReplica implements AsyncDisposable {
  readonly follower: Follower;
  readonly #kv: Kv;
  readonly #logId: number;
  readonly #replica: Replica;

  constructor(parts: LogReplicaParts, log: FollowedLog) {
    const { shared, kv, self, nodes, rank, clock, drawWriter, defer, timing } = parts;
    const { kind, flushBytes } = log;
    this.#kv = kv;
    this.#logId = shared.logId;
    const onApplied = (ops: Iterable<DecodedOp>, index: number): void => this.applied(ops, index);
    const hearing = log.isHeard ? { onApplied } : {};
    const storeId = shared.logId;
    this.follower = Store.follow({ kv, storeId, flushBytes, defer, ...kind, ...hearing });
    this.#replica = new Replica({
      shared,
      shard: log.shard,
      self,
      nodes,
      rank,
      clock,
      drawWriter,
      follower: this.follower,
      open: (leaderLog) => this.open(leaderLog),
      onChange: () => parts.onChange(),
      isFull: () => parts.isFull(),
      ...(timing === undefined ? {} : { timing }),
    });
  }

  /** Opens the part that leads on this log. */
  abstract open(log: LeaderLog): Promise<Leading>;
  /** Opens a channel to the leader. Undefined when this node does not lead. */
  abstract call(caller: Caller): Hosting | undefined;
  /** The metrics of the shard, while this node leads. */
  abstract scrape(): string | undefined;
  /** Called when a record of another node was applied. */
  abstract applied(ops: Iterable<DecodedOp>, index: number): void;

  get status(): ReplicaStatus {
    return this.#replica.status;
  }

  /** Which log it follows. */
  get logId(): number {
    return this.#logId;
  }

  /** Begins to read everything that this node has. Throws when it has nothing. */
  snapshot(): Snapshot {
    return snapshotOf(this.#kv);
  }

  /** See the replica. */
  end(): boolean {
    return this.#replica.end();
  }

  handOff(to: string | undefined): boolean {
    return this.#replica.handOff(to);
  }

  async abandon(): Promise<void> {
    await this.#replica.abandon();
    await this.#kv.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#replica[Symbol.asyncDispose]();
    await this.#kv.close();
  }
}
