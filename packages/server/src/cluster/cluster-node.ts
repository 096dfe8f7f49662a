/**
 * This server as a node of a cluster: its replicas of all shards and of the control log, the other nodes, and
 * the links by which its router reaches the leaders. At the start it waits for log servers, and for logs that do not
 * exist yet, and reports that it waits.
 */
import { createHash } from "node:crypto";
import { FaultError, type LeaderName, type SharedLog } from "@codeq/engine";
import type { FoundLog, MemberHealth } from "@codeq/engine/etcd";
import type { TaskId, TenantId } from "@codeq/queue";
import type { Clock } from "../core/clock.ts";
import { shardOf } from "../core/shards/shard-of.ts";
import type { RecordText } from "../core/store/store.ts";
import { type Logger, SpacedWarnings } from "../telemetry/logger.ts";
import { ClusterControl } from "./control/cluster-control.ts";
import { ControlReplica } from "./control/control-replica.ts";
import type { LogReplica } from "./log-replica.ts";
import {
  type AddedNode,
  addNode,
  isWhole,
  type LogServer,
  type LogServers,
  type MembershipParts,
  type NodeReport,
  type NotChanged,
  notReady,
  type RemovedNode,
  removeNode,
} from "./members/membership.ts";
import {
  type NewLog,
  type RepairedLog,
  type RepairOrder,
  type RepairParts,
  repair,
  type WantedRepair,
} from "./members/repair.ts";
import { type LogStatus, NodeLog, type ReplicaFiles, type StoredPosition } from "./node-log.ts";
import { ClusterLink, type ClusterLinkParts } from "./peers/cluster-link.ts";
import type { ClusterSecrets } from "./peers/peer-socket.ts";
import { Peers, type PeerTls, type Snapshot, type TakePiece } from "./peers/peers.ts";
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
  readonly secrets: ClusterSecrets;
  readonly tls: PeerTls | undefined;
  readonly shards: number;
  /** The known URLs of the HTTP APIs of the nodes. */
  readonly urls: ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly logs: ClusterLogs;
  readonly filesOf: (shard: number) => ReplicaFiles;
  readonly drawLogId: () => number;
  readonly openReplica: (opening: ReplicaOpening) => Promise<ReplicatedShard>;
  readonly openControl: (opening: ControlOpening) => Promise<ControlReplica>;
}

export interface LogServerStatus extends LogServer {
  readonly url: string;
  /** Undefined while it does not answer. */
  readonly health: MemberHealth | undefined;
}

/** The logs of all shards and the control log, on their servers. */
export interface ClusterLogs extends LogServers {
  /** All log servers, also while they have no majority. */
  health(): Promise<readonly LogServerStatus[]>;
  /** Undefined while the log does not exist. */
  open(shard: number): Promise<SharedLog | undefined>;
  /** As a majority of the log servers knows it; undefined when there is none. */
  look(shard: number): Promise<FoundLog | undefined>;
  /** Replaces the log by an empty one; false when it is not as it was found. */
  renew(shard: number, found: FoundLog | undefined, log: NewLog): Promise<boolean>;
}

export interface ReplicaOpening {
  readonly shard: number;
  readonly shared: SharedLog;
  /** The ids of all nodes, the one that should lead first. */
  readonly nodes: readonly string[];
  readonly onChange: () => void;
  /** Copies the shard from a node that has it. */
  readonly copy: (take: TakePiece) => Promise<void>;
}

export interface ControlOpening extends ReplicaOpening {
  readonly onWritten: (writes: readonly RecordText[]) => void;
}

export interface ShardOfNode extends LogStatus {
  readonly shard: number;
}

/** The log that another node should lead, all logs by default, and that node. */
export interface WantedHandOff {
  readonly shard: number | undefined;
  readonly to: string | undefined;
}

export interface HandedOff {
  readonly shard: number;
  readonly from: string;
  readonly to: string;
}

/** The questions between nodes. */
type Question = LeaderQuestion | RepairOrder | { readonly kind: "report" };

/** Questions to the leader of a shard. */
type LeaderQuestion =
  | { readonly kind: "handoff"; readonly shard: number; readonly to?: string }
  | { readonly kind: "end"; readonly shard: number };

type NodeAnswer =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly why: string };

export interface ClusterHealth {
  readonly nodes: readonly NodeHealth[];
  readonly logServers: readonly LogServerStatus[];
}

interface NodeHealth extends LeaderName {
  readonly isUp: boolean;
  /** About how many records the node has not read, of the log that it is furthest behind. */
  readonly behind?: number | undefined;
  readonly problem?: string | undefined;
}

export interface ClusterStatus {
  readonly self: LeaderName;
  readonly nodes: readonly LeaderName[];
  /** The known URLs of the HTTP APIs of the nodes. */
  readonly urls: ReadonlyMap<string, string>;
  readonly shards: readonly ShardOfNode[];
  readonly control: LogStatus;
}

const askAgainMs = 20;
/** How long the state of the cluster is not asked for again. */
const healthMs = 1000;
const healthMsMax = 1000;
/** A node that does not report for this long is considered away. */
const reportMsMax = 5000;
const answerMsMax = 60_000;
/** How long a hand-over waits for the next leader, and the end of a log for its last record. */
const handOffMsMax = 10_000;

export class ClusterNode implements AsyncDisposable {
  readonly links: readonly ClusterLink[];
  readonly control: ClusterControl;
  readonly #parts: ClusterNodeParts;
  readonly #peers: Peers;
  readonly #warnings: SpacedWarnings;
  readonly #logs: ReadonlyMap<number, NodeLog>;
  /** Called when a role or a leader has changed. */
  readonly #watchers: Set<() => void> = new Set();
  #copies = 0;
  #health: { readonly askedMs: number; readonly found: Promise<ClusterHealth> } | undefined;

  private constructor(parts: ClusterNodeParts) {
    this.#parts = parts;
    const { secrets, tls, clock, logger, self } = parts;
    this.#warnings = new SpacedWarnings(logger, clock);
    const numbers = Array.from({ length: parts.shards }, (_, number) => number);
    const onCall: ConstructorParameters<typeof Peers>[0]["onCall"] = (shard, caller) =>
      this.#replicaOf(shard)?.call(caller);
    const onSnapshot = (shard: number): Snapshot => {
      const replica = this.#replicaOf(shard);
      if (replica === undefined) throw new FaultError("behind", "this node is not there yet");
      return replica.snapshot();
    };
    const onAsk = (question: unknown): Promise<unknown> => this.#answer(question as Question);
    this.#peers = new Peers({ secrets, tls, clock, logger, onCall, onSnapshot, onAsk });
    const partsOf = (shard: number): ClusterLinkParts => ({
      shard,
      clock,
      status: () => this.#statusOf(shard),
      dial: (leader, number, caller) =>
        leader.id === self.id ? onCall(number, caller) : this.#peers.dial(leader, number, caller),
    });
    this.links = numbers.map((shard) => new ClusterLink(partsOf(shard)));
    this.control = new ClusterControl(partsOf(controlNumber));
    this.#logs = new Map(this.#numbers.map((shard) => [shard, this.#logOf(shard)]));
  }

  /** Rejects when the other nodes cannot reach this one at its address. */
  static async start(parts: ClusterNodeParts): Promise<ClusterNode> {
    const node = new ClusterNode(parts);
    await node.#peers.listen(parts.self.address);
    for (const log of node.#logs.values()) log.start();
    return node;
  }

  get status(): ClusterStatus {
    const { self, nodes, urls } = this.#parts;
    const shards = this.links.map((_, shard) => ({ shard, ...this.#statusOf(shard) }));
    return { self, nodes, urls, shards, control: this.#statusOf(controlNumber) };
  }

  /** For connections to and from other nodes from now on. */
  useTls(tls: PeerTls): void {
    this.#peers.useTls(tls);
  }

  /** The other nodes and the log servers, asked just now, or a moment ago. */
  async health(): Promise<ClusterHealth> {
    const { clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (this.#health === undefined || nowMs - this.#health.askedMs > healthMs) {
      this.#health = { askedMs: nowMs, found: this.#askHealth() };
    }
    return await this.#health.found;
  }

  async #askHealth(): Promise<ClusterHealth> {
    const { nodes, logs } = this.#parts;
    const [reports, logServers] = await Promise.all([
      Promise.all(nodes.map((node) => this.#report(node, healthMsMax))),
      logs.health(),
    ]);
    return {
      logServers,
      nodes: nodes.map((node, at) => {
        const report = reports[at];
        if (report === undefined) return { ...node, isUp: false };
        const behind = report.logs.map(({ shard, stored }) =>
          Math.max(0, this.#statusOf(shard).slot - (stored?.slot ?? 0)),
        );
        const [problem] = report.logs.flatMap((log) => log.problem ?? []);
        return { ...node, isUp: true, behind: Math.max(0, ...behind), problem };
      }),
    };
  }

  /** The local copy of a task, without asking the leader. */
  local(tenantId: TenantId, id: TaskId): LocalTask | undefined {
    const replica = this.#replicaOf(shardOf(id, this.links.length));
    return replica instanceof ReplicatedShard ? replica.local(tenantId, id) : undefined;
  }

  /** The URL of the leader of a task's shard, or of the only shard; undefined when it is this node, or unknown. */
  leaderUrl(id: TaskId | undefined): string | undefined {
    const { self, urls } = this.#parts;
    const count = this.links.length;
    if (id === undefined && count > 1) return undefined;
    const { leader } = this.#statusOf(id === undefined ? 0 : shardOf(id, count));
    return leader === undefined || leader.id === self.id ? undefined : urls.get(leader.id);
  }

  /** Makes the leaders hand over, and resolves when other nodes lead. */
  async handOff({ shard, to }: WantedHandOff): Promise<readonly HandedOff[] | NotChanged> {
    const shards = shard === undefined ? this.#numbers : [shard];
    const node = this.#parts.nodes.find(({ id }) => id === to);
    // A hand-over to a node that is away would leave the log without a leader.
    const refused = node && notReady(node.id, await this.#report(node), shards);
    if (refused !== undefined) return refused;
    return await Promise.all(shards.map((each) => this.#handOff(each, to)));
  }

  /** Ends all logs, the control log last. Nothing is accepted afterwards, and every node has everything. */
  async end(): Promise<void> {
    await Promise.all([...this.links.keys()].map((shard) => this.#endLog(shard)));
    await this.#endLog(controlNumber);
  }

  /** Does the next step of adding a node to the cluster, and reports the progress. */
  add(node: LeaderName): Promise<AddedNode | NotChanged> {
    return addNode(this.#membership, node);
  }

  /** Does the next step of removing a node from the cluster, and reports the progress. */
  remove(id: string): Promise<RemovedNode | NotChanged> {
    return removeNode(this.#membership, id);
  }

  /** Reports what the nodes have of their logs and, when confirmed, repairs them. */
  repair(wanted: Omit<WantedRepair, "shards">, shard?: number): Promise<readonly RepairedLog[]> {
    const { nodes, logs, drawLogId, clock } = this.#parts;
    const parts: RepairParts = {
      nodes,
      look: (each) => logs.look(each),
      renewLog: (each, found, log) => logs.renew(each, found, log),
      drawLogId,
      report: (node) => this.#report(node),
      order: (node, order) => this.#ask(node, order),
      pause: () => new Promise<void>((resolve) => void clock.after(askAgainMs, resolve)),
    };
    return repair(parts, { ...wanted, shards: shard === undefined ? this.#numbers : [shard] });
  }

  /** The measurements of the shards that it leads. */
  scrape(): readonly { readonly shard: number; readonly text: string }[] {
    return this.links.flatMap((_, shard) => {
      const text = this.#replicaOf(shard)?.scrape();
      return text === undefined ? [] : [{ shard, text }];
    });
  }

  /** Hands over what this node leads, and ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    // No copy may read from files that are being closed.
    this.control.use(undefined);
    const stopped = [...this.#logs.values()].map((log) => log[Symbol.asyncDispose]());
    // Without this, the logs would only end after the copies.
    this.#peers.giveUpCopies();
    await Promise.all(stopped);
    await this.control[Symbol.asyncDispose]();
    await this.#peers[Symbol.asyncDispose]();
  }

  #statusOf(shard: number): LogStatus {
    return this.#nodeLog(shard).status;
  }

  #nodeLog(shard: number): NodeLog {
    const log = this.#logs.get(shard);
    if (log !== undefined) return log;
    throw new FaultError(
      "format",
      `there is no shard ${shard}; nodes need the same setting shards`,
    );
  }

  #replicaOf(shard: number): LogReplica | undefined {
    return this.#logs.get(shard)?.replica;
  }

  get #membership(): MembershipParts {
    const { self, nodes, logs } = this.#parts;
    return {
      self,
      nodes,
      logs: this.#numbers,
      logServers: logs,
      statusOf: (shard) => this.#statusOf(shard),
      report: (node) => this.#report(node),
      handOff: (wanted) => this.handOff(wanted),
    };
  }

  async #handOff(shard: number, to: string | undefined): Promise<HandedOff> {
    const leader = await this.#leaderOf(shard);
    const { epoch } = this.#statusOf(shard);
    const from = leader.id;
    if (from === to) return { shard, from, to };
    const question: LeaderQuestion = {
      kind: "handoff",
      shard,
      ...(to === undefined ? {} : { to }),
    };
    await this.#askLeader(question);
    await this.#until(shard, () => {
      const now = this.#statusOf(shard);
      return now.leader !== undefined && now.epoch > epoch;
    });
    return { shard, from, to: this.#statusOf(shard).leader?.id ?? "" };
  }

  /** Repeats the question until the leader accepts it: other nodes know who leads a moment before the leader does. */
  async #askLeader(question: LeaderQuestion): Promise<void> {
    const { clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    for (;;) {
      const leader = await this.#leaderOf(question.shard);
      if (await this.#ask(leader, question)) return;
      if (clock.monotonicMs() - startedMs > handOffMsMax) throw noLeader(question.shard);
      await new Promise<void>((resolve) => void clock.after(askAgainMs, resolve));
    }
  }

  /** The answer of a node, this one or another; throws when the node refuses or does not answer. */
  async #ask(
    node: LeaderName,
    question: Question,
    withinMs: number = answerMsMax,
  ): Promise<unknown> {
    const { self, clock } = this.#parts;
    const asked = node.id === self.id ? this.#answer(question) : this.#peers.ask(node, question);
    const late = Promise.withResolvers<never>();
    const cancel = clock.after(withinMs, () => {
      late.reject(new FaultError("not_leader", `node ${node.id} does not answer`));
    });
    try {
      const answer = (await Promise.race([asked, late.promise])) as NodeAnswer;
      if (answer.ok) return answer.value;
      throw new FaultError("storage_failed", `node ${node.id}: ${answer.why}`);
    } finally {
      cancel();
    }
  }

  async #report(node: LeaderName, withinMs: number = reportMsMax): Promise<NodeReport | undefined> {
    try {
      return (await this.#ask(node, { kind: "report" }, withinMs)) as NodeReport;
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      return undefined;
    }
  }

  async #answer(question: Question): Promise<NodeAnswer> {
    try {
      return { ok: true, value: await this.#do(question) };
    } catch (error) {
      // A question of another version, or a bug, fails this question and not the node.
      const { message } = error as Error;
      if (!(error instanceof FaultError)) {
        this.#parts.logger.error("a question of another node has failed", { error: message });
      }
      return { ok: false, why: message };
    }
  }

  #do(question: Question): Promise<unknown> | unknown {
    switch (question.kind) {
      case "handoff":
        return this.#replicaOf(question.shard)?.handOff(question.to) === true;
      case "end":
        return this.#replicaOf(question.shard)?.end() === true;
      case "report":
        return this.#ownReport();
      case "halt":
        return this.#halt(question.shard);
      case "moveToLog":
        return this.#nodeLog(question.shard).moveToLog(question.logId);
      case "resume":
        return this.#nodeLog(question.shard).resume();
      case "replace":
        return this.#replace(question.shard, question.logId);
    }
  }

  async #ownReport(): Promise<NodeReport> {
    const { self, nodes } = this.#parts;
    const logs = await Promise.all([...this.#logs.values()].map((log) => log.report()));
    return { id: self.id, members: nodes, logs };
  }

  /** Undefined for data that cannot be read. */
  async #halt(shard: number): Promise<StoredPosition | undefined> {
    try {
      return await this.#nodeLog(shard).halt();
    } catch (error) {
      const code = error instanceof FaultError ? error.code : undefined;
      if (code !== "corrupt" && code !== "format") throw error;
      return undefined;
    }
  }

  /** Only when another node has everything of the log. */
  async #replace(shard: number, logId: number): Promise<string | undefined> {
    const { nodes, self, logger } = this.#parts;
    const others = nodes.filter(({ id }) => id !== self.id);
    const reports = await Promise.all(others.map((node) => this.#report(node)));
    const isHeld = reports.some((report) => {
      const log = report?.logs.find((each) => each.shard === shard);
      return log !== undefined && isWhole(log) && log.stored?.logId === logId;
    });
    if (!isHeld) {
      const why = `no other node has a whole copy of ${nameOf(shard)}; the data stays as it is`;
      throw new FaultError("storage_failed", why);
    }
    const aside = await this.#nodeLog(shard).replace();
    logger.warn(`${nameOf(shard)} is copied again from another node`, { before: aside });
    return aside;
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

  /** Resolves when `holds` is true for a log; rejects when that takes too long. */
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

  /** The numbers of all logs that this node follows. */
  get #numbers(): readonly number[] {
    return [controlNumber, ...this.links.keys()];
  }

  #logOf(shard: number): NodeLog {
    const { clock, filesOf } = this.#parts;
    return new NodeLog({
      shard,
      clock,
      find: () => this.#parts.logs.open(shard),
      open: (shared) => this.#open(shard, shared),
      files: filesOf(shard),
      onReplica: (replica) => {
        const isControl = replica === undefined || replica instanceof ControlReplica;
        if (shard === controlNumber && isControl) this.control.use(replica);
      },
      onChange: () => this.#changed(shard),
      onWait: (problem) => {
        this.#warnings.warn(`${nameOf(shard)} cannot be opened yet`, { problem });
      },
    });
  }

  async #open(shard: number, shared: SharedLog): Promise<LogReplica> {
    const { openReplica, openControl } = this.#parts;
    const nodes = this.#nodesFor(shard);
    const onChange = (): void => this.#changed(shard);
    const copy = (take: TakePiece): Promise<void> => this.#copy(shard, take);
    const opening = { shard, shared, nodes, onChange, copy };
    if (shard !== controlNumber) return await openReplica(opening);
    const onWritten: ControlOpening["onWritten"] = (writes) => this.control.written(writes);
    return await openControl({ ...opening, onWritten });
  }

  /** Copies from the first other node that has the shard. */
  async #copy(shard: number, take: TakePiece): Promise<void> {
    const { nodes, self, logger } = this.#parts;
    const others = nodes.filter(({ id }) => id !== self.id);
    const turn = this.#copies++ % others.length;
    const node = others[turn] as LeaderName;
    logger.info(`${nameOf(shard)} is copied from another node`, { from: node.id });
    return await this.#peers.copy(node, shard, take);
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
    // Not while the replica is in the middle of its change.
    if (role === "behind") queueMicrotask(() => this.#nodeLog(shard).reopen());
    for (const watch of [...this.#watchers]) watch();
    // Not while the replica is in the middle of its change.
    queueMicrotask(() => (shard === controlNumber ? this.control : this.links[shard])?.look());
  }

  /** Spreads the leaders: the order of the nodes is different for every shard. */
  #nodesFor(shard: number): readonly string[] {
    const weight = (id: string): string =>
      createHash("sha256").update(`${shard}/${id}`).digest("hex");
    const ids = this.#parts.nodes.map(({ id }) => id);
    return ids.sort((one, other) => (weight(one) > weight(other) ? -1 : 1));
  }
}
