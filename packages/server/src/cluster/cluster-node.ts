/**
 * This server as a node of a cluster: its replicas of all shards and of the control log, the other nodes, and
 * the links by which its router reaches the leaders. What is missing at the start (log servers, logs that nobody has made yet)
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
import type { TaskId, TenantId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import { shardOf } from "../shards/shard-of.ts";
import type { RecordText } from "../store/store.ts";
import type { Logger } from "../telemetry/logger.ts";
import { SpacedWarnings } from "../telemetry/spaced-warnings.ts";
import { ClusterControl } from "./cluster-control.ts";
import { ClusterLink, type ClusterLinkParts } from "./cluster-link.ts";
import type { ControlReplica } from "./control-replica.ts";
import { Peers, type PeerTls, type TakePiece } from "./peers.ts";
import {
  controlNumber,
  type LocalTask,
  nameOf,
  noLeader,
  ReplicatedShard,
} from "./replicated-shard.ts";

export interface ClusterNodeParts {
  readonly self: LeaderName;
  readonly nodes: readonly LeaderName[];
  readonly secret: string;
  readonly tls: PeerTls | undefined;
  readonly shards: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The log of a shard, or the control log; undefined while there is none. */
  readonly openLog: (shard: number) => Promise<SharedLog | undefined>;
  readonly openReplica: (opening: ReplicaOpening) => Promise<ReplicatedShard>;
  readonly openControl: (opening: ControlOpening) => Promise<ControlReplica>;
}

type AnyReplica = ReplicatedShard | ControlReplica;

export interface ReplicaOpening {
  readonly shard: number;
  readonly shared: SharedLog;
  /** 0 for the node that should lead. */
  readonly rank: number;
  readonly onChange: () => void;
  /** Copies the shard from a node that has it. */
  readonly copy: (take: TakePiece) => Promise<SnapshotEnd>;
}

export interface ControlOpening extends ReplicaOpening {
  readonly onWritten: (writes: readonly RecordText[]) => void;
}

export interface ShardOfNode extends Omit<ReplicaStatus, "role"> {
  readonly shard: number;
  readonly role: ReplicaStatus["role"] | "waiting";
}

/** Which logs another node is to lead, all of them by default, and which node. */
export interface WantedHandOff {
  readonly shard: number | undefined;
  readonly to: string | undefined;
}

export interface HandedOff {
  readonly shard: number;
  readonly from: string;
  readonly to: string;
}

/** What nodes ask each other. */
type Question =
  | { readonly kind: "handoff"; readonly shard: number; readonly to?: string }
  | { readonly kind: "end"; readonly shard: number };

export interface ClusterStatus {
  readonly self: LeaderName;
  readonly nodes: readonly LeaderName[];
  readonly shards: readonly ShardOfNode[];
  readonly control: Omit<ShardOfNode, "shard">;
}

const retryMs = 1000;
const askAgainMs = 20;
/** How long a hand-over waits for the next leader, and the end of a log for its last record. */
const handOffMsMax = 10_000;
const waiting: Omit<ShardOfNode, "shard"> = {
  role: "waiting",
  leader: undefined,
  epoch: 0,
  slot: 0,
  index: 0,
  silentMs: 0,
  ageMs: Number.POSITIVE_INFINITY,
  problem: undefined,
};

export class ClusterNode implements AsyncDisposable {
  readonly links: readonly ClusterLink[];
  readonly control: ClusterControl;
  readonly #parts: ClusterNodeParts;
  readonly #peers: Peers;
  readonly #warnings: SpacedWarnings;
  readonly #replicas: Map<number, AnyReplica> = new Map();
  /** Why a shard is not there yet. */
  readonly #problems: Map<number, string> = new Map();
  readonly #opening: Promise<void>[];
  /** Called when a role or a leader has changed. */
  readonly #watchers: Set<() => void> = new Set();
  #copies = 0;
  #isStopping = false;
  readonly #stopped: PromiseWithResolvers<void> = Promise.withResolvers();

  private constructor(parts: ClusterNodeParts) {
    this.#parts = parts;
    const { secret, tls, clock, logger, self } = parts;
    this.#warnings = new SpacedWarnings(logger, clock);
    const numbers = Array.from({ length: parts.shards }, (_, number) => number);
    const onCall: ConstructorParameters<typeof Peers>[0]["onCall"] = (shard, caller) =>
      this.#replicas.get(shard)?.call(caller);
    const onSnapshot = (shard: number): SnapshotReader => {
      const replica = this.#replicas.get(shard);
      if (replica === undefined) throw new FaultError("behind", "this node is not there yet");
      return replica.snapshot();
    };
    const onAsk = (question: unknown): unknown => this.#answer(question as Question);
    this.#peers = new Peers({ secret, tls, clock, logger, onCall, onSnapshot, onAsk });
    const partsOf = (shard: number): ClusterLinkParts => ({
      shard,
      clock,
      status: () => this.#statusOf(shard),
      dial: (leader, number, caller) =>
        leader.id === self.id ? onCall(number, caller) : this.#peers.dial(leader, number, caller),
    });
    this.links = numbers.map((shard) => new ClusterLink(partsOf(shard)));
    this.control = new ClusterControl(partsOf(controlNumber));
    this.#opening = [];
  }

  /** Rejects when the other nodes cannot reach this one at its address. */
  static async start(parts: ClusterNodeParts): Promise<ClusterNode> {
    const node = new ClusterNode(parts);
    await node.#peers.listen(parts.self.address);
    for (const shard of node.#numbers) node.#opening.push(node.#open(shard));
    return node;
  }

  get status(): ClusterStatus {
    const { self, nodes } = this.#parts;
    const shards = this.links.map((_, shard) => ({ shard, ...this.#statusOf(shard) }));
    return { self, nodes, shards, control: this.#statusOf(controlNumber) };
  }

  /** A task as this node knows it, without asking the leader. */
  local(tenantId: TenantId, id: TaskId): LocalTask | undefined {
    const replica = this.#replicas.get(shardOf(id, this.links.length));
    return replica instanceof ReplicatedShard ? replica.local(tenantId, id) : undefined;
  }

  /** Has the leaders hand over, and resolves when other nodes lead. */
  handOff({ shard, to }: WantedHandOff): Promise<readonly HandedOff[]> {
    const shards = shard === undefined ? this.#numbers : [shard];
    return Promise.all(shards.map((each) => this.#handOff(each, to)));
  }

  /** Has all logs end, the control log last. Nothing is accepted afterwards, and every node has everything. */
  async end(): Promise<void> {
    await Promise.all([...this.links.keys()].map((shard) => this.#endLog(shard)));
    await this.#endLog(controlNumber);
  }

  /** The measurements of the shards that it leads. */
  scrape(): readonly { readonly shard: number; readonly text: string }[] {
    return this.links.flatMap((_, shard) => {
      const text = this.#replicas.get(shard)?.scrape();
      return text === undefined ? [] : [{ shard, text }];
    });
  }

  /** Hands over what this node leads, and ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#stopped.resolve();
    await Promise.all(this.#opening);
    const replicas = [...this.#replicas.values()];
    await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
    await this.control[Symbol.asyncDispose]();
    await this.#peers[Symbol.asyncDispose]();
  }

  #statusOf(shard: number): Omit<ShardOfNode, "shard"> {
    const problem = this.#problems.get(shard);
    return this.#replicas.get(shard)?.status ?? { ...waiting, problem };
  }

  async #handOff(shard: number, to: string | undefined): Promise<HandedOff> {
    const leader = await this.#leaderOf(shard);
    const { epoch } = this.#statusOf(shard);
    const from = leader.id;
    if (from === to) return { shard, from, to };
    const question: Question = { kind: "handoff", shard, ...(to === undefined ? {} : { to }) };
    await this.#askLeader(question);
    await this.#until(shard, () => {
      const now = this.#statusOf(shard);
      return now.leader !== undefined && now.epoch > epoch;
    });
    return { shard, from, to: this.#statusOf(shard).leader?.id ?? "" };
  }

  /** Asks the leader until it does what is asked: others know who leads a moment before the leader does. */
  async #askLeader(question: Question): Promise<void> {
    const { clock, self } = this.#parts;
    const startedMs = clock.monotonicMs();
    for (;;) {
      const leader = await this.#leaderOf(question.shard);
      const isOwn = leader.id === self.id;
      if (isOwn ? this.#answer(question) : await this.#peers.ask(leader, question)) return;
      if (clock.monotonicMs() - startedMs > handOffMsMax) throw noLeader(question.shard);
      await new Promise<void>((resolve) => void clock.after(askAgainMs, resolve));
    }
  }

  #answer(question: Question): boolean {
    const replica = this.#replicas.get(question.shard);
    if (question.kind === "end") return replica?.end() === true;
    return replica?.handOff(question.to) === true;
  }

  async #endLog(shard: number): Promise<void> {
    if (this.#statusOf(shard).role === "ended") return;
    await this.#askLeader({ kind: "end", shard });
    await this.#until(shard, () => this.#statusOf(shard).role === "ended");
  }

  async #leaderOf(shard: number): Promise<LeaderName> {
    await this.#until(shard, () => this.#statusOf(shard).leader !== undefined);
    return this.#statusOf(shard).leader as LeaderName;
  }

  /** Resolves when something holds of a log; rejects when that takes too long. */
  #until(shard: number, holds: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#parts.clock.after(handOffMsMax, () => {
        this.#watchers.delete(watch);
        reject(noLeader(shard));
      });
      const watch = (): void => {
        if (!holds()) return;
        this.#watchers.delete(watch);
        cancel();
        resolve();
      };
      this.#watchers.add(watch);
      watch();
    });
  }

  /** Of all logs that it follows. */
  get #numbers(): readonly number[] {
    return [controlNumber, ...this.links.keys()];
  }

  async #open(shard: number): Promise<void> {
    while (!this.#isStopping) {
      try {
        const shared = await this.#parts.openLog(shard);
        if (shared !== undefined) {
          const rank = this.#rankOf(shard);
          const onChange = (): void => this.#changed(shard);
          const copy = (take: TakePiece): Promise<SnapshotEnd> => this.#copy(shard, take);
          await this.#use({ shard, shared, rank, onChange, copy });
          this.#problems.delete(shard);
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

  async #use(opening: ReplicaOpening): Promise<void> {
    const { openReplica, openControl } = this.#parts;
    if (opening.shard !== controlNumber) {
      this.#replicas.set(opening.shard, await openReplica(opening));
      return;
    }
    const onWritten: ControlOpening["onWritten"] = (writes) => this.control.written(writes);
    const replica = await openControl({ ...opening, onWritten });
    this.#replicas.set(controlNumber, replica);
    this.control.use(replica);
  }

  /** From the first of the other nodes that has the shard. */
  async #copy(shard: number, take: TakePiece): Promise<SnapshotEnd> {
    const { nodes, self, logger } = this.#parts;
    const others = nodes.filter(({ id }) => id !== self.id);
    const turn = this.#copies++ % others.length;
    const node = others[turn] as LeaderName;
    logger.info(`${nameOf(shard)} is copied from another node`, { from: node.id });
    return await this.#peers.copy(node, shard, take);
  }

  /** The log was trimmed beyond what this node has: it begins again, with a copy. */
  async #openAnew(shard: number, replica: AnyReplica): Promise<void> {
    this.#replicas.delete(shard);
    if (shard === controlNumber) this.control.use(undefined);
    await replica[Symbol.asyncDispose]();
    await this.#open(shard);
  }

  #wait(shard: number, problem: string): void {
    this.#problems.set(shard, problem);
    this.#warnings.warn(`${nameOf(shard)} cannot be opened yet`, { problem });
  }

  #changed(shard: number): void {
    const { role, leader, epoch, problem } = this.#statusOf(shard);
    const fields = {
      shard: shard === controlNumber ? "control" : shard,
      role,
      leader: leader?.id,
      epoch,
    };
    if (role === "diverged")
      this.#parts.logger.error("a shard has diverged", { ...fields, problem });
    else this.#parts.logger.info("cluster", fields);
    if (problem !== undefined && role !== "diverged") {
      this.#warnings.warn(`${nameOf(shard)} of this node has a problem`, { problem });
    }
    const replica = this.#replicas.get(shard);
    if (role === "behind" && replica !== undefined) {
      this.#opening.push(this.#openAnew(shard, replica));
    }
    for (const watch of [...this.#watchers]) watch();
    // Not while the replica is in the middle of its change.
    queueMicrotask(() => (shard === controlNumber ? this.control : this.links[shard])?.look());
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
