/**
 * This server as a node of a cluster: its replicas of all shards, the other nodes, and the links by which
 * its router reaches the leaders. What is missing at the start (log servers, logs that nobody has made yet)
 * is waited for, and told.
 */
import { createHash } from "node:crypto";
import {
  FaultError,
  type LeaderName,
  type ReplicaStatus,
  type SharedLog,
  type SnapshotEnd,
  type SnapshotReader,
} from "@codeq/engine";
import type { Clock } from "../clock.ts";
import type { Logger } from "../telemetry/logger.ts";
import { SpacedWarnings } from "../telemetry/spaced-warnings.ts";
import { ClusterLink } from "./cluster-link.ts";
import { Peers, type PeerTls, type TakePiece } from "./peers.ts";
import type { ReplicatedShard } from "./replicated-shard.ts";

export interface ClusterNodeParts {
  readonly self: LeaderName;
  readonly nodes: readonly LeaderName[];
  readonly secret: string;
  readonly tls: PeerTls | undefined;
  readonly shards: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The log of a shard; undefined while there is none. */
  readonly openLog: (shard: number) => Promise<SharedLog | undefined>;
  readonly openReplica: (opening: ReplicaOpening) => Promise<ReplicatedShard>;
}

export interface ReplicaOpening {
  readonly shard: number;
  readonly shared: SharedLog;
  /** 0 for the node that should lead. */
  readonly rank: number;
  readonly onChange: () => void;
  /** Copies the shard from a node that has it. */
  readonly copy: (take: TakePiece) => Promise<SnapshotEnd>;
}

export interface ShardOfNode extends Omit<ReplicaStatus, "role"> {
  readonly shard: number;
  readonly role: ReplicaStatus["role"] | "waiting";
}

export interface ClusterStatus {
  readonly self: LeaderName;
  readonly nodes: readonly LeaderName[];
  readonly shards: readonly ShardOfNode[];
}

const retryMs = 1000;
const waiting: Omit<ShardOfNode, "shard"> = {
  role: "waiting",
  leader: undefined,
  epoch: 0,
  slot: 0,
  index: 0,
  silentMs: 0,
  problem: undefined,
};

export class ClusterNode implements AsyncDisposable {
  readonly links: readonly ClusterLink[];
  readonly #parts: ClusterNodeParts;
  readonly #peers: Peers;
  readonly #warnings: SpacedWarnings;
  readonly #replicas: (ReplicatedShard | undefined)[];
  /** Why a shard is not there yet. */
  readonly #problems: (string | undefined)[];
  readonly #opening: Promise<void>[];
  #copies = 0;
  #isStopping = false;
  readonly #stopped: PromiseWithResolvers<void> = Promise.withResolvers();

  private constructor(parts: ClusterNodeParts) {
    this.#parts = parts;
    const { secret, tls, clock, logger, self } = parts;
    this.#warnings = new SpacedWarnings(logger, clock);
    const numbers = Array.from({ length: parts.shards }, (_, number) => number);
    this.#replicas = numbers.map(() => undefined);
    this.#problems = numbers.map(() => undefined);
    const onCall: ConstructorParameters<typeof Peers>[0]["onCall"] = (shard, caller) =>
      this.#replicas[shard]?.call(caller);
    const onSnapshot = (shard: number): SnapshotReader => {
      const replica = this.#replicas[shard];
      if (replica === undefined) throw new FaultError("behind", "this node is not there yet");
      return replica.snapshot();
    };
    this.#peers = new Peers({ secret, tls, clock, logger, onCall, onSnapshot });
    this.links = numbers.map(
      (shard) =>
        new ClusterLink({
          shard,
          clock,
          status: () => this.#statusOf(shard),
          dial: (leader, number, caller) =>
            leader.id === self.id
              ? onCall(number, caller)
              : this.#peers.dial(leader, number, caller),
        }),
    );
    this.#opening = [];
  }

  /** Rejects when the other nodes cannot reach this one at its address. */
  static async start(parts: ClusterNodeParts): Promise<ClusterNode> {
    const node = new ClusterNode(parts);
    await node.#peers.listen(parts.self.address);
    for (let shard = 0; shard < parts.shards; shard += 1) node.#opening.push(node.#open(shard));
    return node;
  }

  get status(): ClusterStatus {
    const { self, nodes } = this.#parts;
    const shards = this.#replicas.map((_, shard) => ({ shard, ...this.#statusOf(shard) }));
    return { self, nodes, shards };
  }

  /** The measurements of the shards that it leads. */
  scrape(): readonly { readonly shard: number; readonly text: string }[] {
    return this.#replicas.flatMap((replica, shard) => {
      const text = replica?.scrape();
      return text === undefined ? [] : [{ shard, text }];
    });
  }

  /** Hands over what this node leads, and ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#stopped.resolve();
    await Promise.all(this.#opening);
    await Promise.all(this.#replicas.map((replica) => replica?.[Symbol.asyncDispose]()));
    await this.#peers[Symbol.asyncDispose]();
  }

  #statusOf(shard: number): Omit<ShardOfNode, "shard"> {
    const problem = this.#problems[shard];
    return this.#replicas[shard]?.status ?? { ...waiting, problem };
  }

  async #open(shard: number): Promise<void> {
    while (!this.#isStopping) {
      try {
        const shared = await this.#parts.openLog(shard);
        if (shared !== undefined) {
          const rank = this.#rankOf(shard);
          const onChange = (): void => this.#changed(shard);
          const copy = (take: TakePiece): Promise<SnapshotEnd> => this.#copy(shard, take);
          const opening = { shard, shared, rank, onChange, copy };
          this.#replicas[shard] = await this.#parts.openReplica(opening);
          this.#problems[shard] = undefined;
          this.#changed(shard);
          return;
        }
        this.#wait(
          shard,
          "nobody has made its log yet; start one node with clusterBootstrap: true",
        );
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
        this.#wait(shard, error.message);
      }
      const soon = new Promise<void>((resolve) => void this.#parts.clock.after(retryMs, resolve));
      await Promise.race([soon, this.#stopped.promise]);
    }
  }

  /** From the first of the other nodes that has the shard. */
  async #copy(shard: number, take: TakePiece): Promise<SnapshotEnd> {
    const { nodes, self, logger } = this.#parts;
    const others = nodes.filter(({ id }) => id !== self.id);
    const turn = this.#copies++ % others.length;
    const node = others[turn] as LeaderName;
    logger.info("a shard is copied from another node", { shard, from: node.id });
    return await this.#peers.copy(node, shard, take);
  }

  /** The log was trimmed beyond what this node has: it begins again, with a copy. */
  async #openAnew(shard: number, replica: ReplicatedShard): Promise<void> {
    this.#replicas[shard] = undefined;
    await replica[Symbol.asyncDispose]();
    await this.#open(shard);
  }

  #wait(shard: number, problem: string): void {
    this.#problems[shard] = problem;
    this.#warnings.warn("a shard cannot be opened yet", { shard, problem });
  }

  #changed(shard: number): void {
    const { role, leader, epoch, problem } = this.#statusOf(shard);
    const fields = { shard, role, leader: leader?.id, epoch };
    if (role === "diverged")
      this.#parts.logger.error("a shard has diverged", { ...fields, problem });
    else this.#parts.logger.info("cluster", fields);
    if (problem !== undefined && role !== "diverged") {
      this.#warnings.warn("a shard of this node has a problem", { shard, problem });
    }
    const replica = this.#replicas[shard];
    if (role === "behind" && replica !== undefined) {
      this.#opening.push(this.#openAnew(shard, replica));
    }
    // Not while the replica is in the middle of its change.
    queueMicrotask(() => this.links[shard]?.look());
  }

  /** Leaders are spread: for every shard the nodes have another order. */
  #rankOf(shard: number): number {
    const { nodes, self } = this.#parts;
    const weight = ({ id }: LeaderName): string =>
      createHash("sha256").update(`${shard}/${id}`).digest("hex");
    const own = weight(self);
    return nodes.filter((node) => weight(node) > own).length;
  }
}
