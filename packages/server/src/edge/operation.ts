/**
 * The interface of an operation: everything that a transport needs to know about it, without bytes and
 * without keys.
 */
import { type ErrorCode, errors } from "@codeq/protocol";
import type { Owner, TaskId, TenantId } from "@codeq/queue";
import type {
  ClusterHealth,
  ClusterStatus,
  HandedOff,
  WantedHandOff,
} from "../cluster/cluster-node.ts";
import type { AddedNode, NotChanged, RemovedNode } from "../cluster/members/membership.ts";
import type { RepairedLog, WantedRepair } from "../cluster/members/repair.ts";
import type { LocalTask } from "../cluster/replicated-shard.ts";
import type { RateScope } from "../config/rate-limit-settings.ts";
import type { Config } from "../config/settings.ts";
import type { Broker } from "../core/broker/broker.ts";
import type { Clock } from "../core/clock.ts";
import type { LimitState } from "../core/limiter/limiter.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { RandomBytes } from "../core/task-ids.ts";
import type { Events, RateOperation } from "../telemetry/events.ts";
import type { Feed } from "../telemetry/feed.ts";
import type { FeedSummaries } from "../telemetry/feed-summaries.ts";
import type { ApiKeys } from "./access/api-keys/api-keys.ts";
import type { AccessKind } from "./access/authenticator.ts";
import type { Identity, Scope } from "./access/identity.ts";
import type { PublicTokens } from "./access/public-tokens.ts";
import type { Origin } from "./audit/audit-record.ts";
import type { AuditTrail } from "./audit/audit-trail.ts";
import type { ConnectedWorkers } from "./connected-workers.ts";

export interface Refusal {
  readonly ok: false;
  readonly code: ErrorCode;
  /** Says more than the table's text does. */
  readonly text: string;
  /** Further fields of the answer, for programs. */
  readonly details?: Readonly<Record<string, string | number>>;
  /** When it is worth another try; undefined when that is not known. */
  readonly retryAfterMs?: number;
  /** How the limits stand that refused it. */
  readonly limits?: readonly LimitState[];
}

export type Answer<T> = { readonly ok: true; readonly value: T } | Refusal;

export function refusal(code: ErrorCode, text: string = errors[code].text): Refusal {
  return { ok: false, code, text };
}

/** A refusal in one sentence, for where there is no place for its details. */
export function sentenceOf({ text, code, retryAfterMs }: Refusal): string {
  if (code !== "rate_limited" || retryAfterMs === undefined) return text;
  return `${text}; try again in ${retryAfterMs} ms`;
}

/** What an operation may use of the server. A feature with state of its own adds a property in its own file. */
export interface Server {
  readonly broker: Broker;
  readonly clock: Clock;
  readonly events: Events;
  readonly feed: Feed;
  readonly summaries: FeedSummaries;
  readonly workers: ConnectedWorkers;
  readonly apiKeys: ApiKeys;
  readonly publicTokens: PublicTokens;
  readonly audit: AuditTrail;
  readonly config: Config;
  readonly randomBytes: RandomBytes;
  /** On the disk of the data; infinite when the data is in memory. */
  readonly freeBytes: () => Promise<number>;
  /** Undefined for a server that is not in a cluster. */
  readonly cluster?: Cluster | undefined;
}

export interface Cluster {
  readonly status: ClusterStatus;
  /**
   * Where the HTTP API of the leader is, of the shard of a task or of the only shard. Undefined when that is this
   * node, or not known.
   */
  leaderUrl(id: TaskId | undefined): string | undefined;
  /** The other nodes and the log servers. */
  health(): Promise<ClusterHealth>;
  /** A task as this node knows it, without asking the leader. */
  local(tenantId: TenantId, id: TaskId): LocalTask | undefined;
  /** Has the leaders hand over, and resolves when other nodes lead. */
  handOff(wanted: WantedHandOff): Promise<readonly HandedOff[] | NotChanged>;
  /** Has all logs end; every node has everything then. */
  end(): Promise<void>;
  /** Goes on with making a node part of the cluster, and says how far that is. */
  add(node: ClusterStatus["self"]): Promise<AddedNode | NotChanged>;
  /** Goes on with taking a node out of the cluster, and says how far that is. */
  remove(id: string): Promise<RemovedNode | NotChanged>;
  /** Says what the nodes have of their logs, or of one, and repairs what is wrong when that is confirmed. */
  repair(wanted: Omit<WantedRepair, "shards">, shard?: number): Promise<readonly RepairedLog[]>;
}

/** Where an operation counts, and as what. */
export interface Rate {
  readonly scope: RateScope;
  readonly operation: RateOperation;
}

/** A call that was let in as one request, and what else it may count as. */
export interface Admission {
  /** Counts the call as this number of items in all; a refused call counts as none. */
  countAs(tasks: number): Refusal | undefined;
  /** Counts it as so many in all, or as many as there is room for, and says how many. */
  countUpTo(tasks: number): number;
  /** Takes back so many that it was counted as and did not use. */
  takeBack(tasks: number): void;
  /** How the limits stand now; none when nothing limits it. */
  limits(): readonly LimitState[];
}

/** One call, as operations see it. */
export interface Call {
  readonly identity: Identity;
  /** Aborts when the caller no longer waits for the answer. */
  readonly signal: AbortSignal | undefined;
  /** What the call counts as; it has been let in as one request. */
  readonly admission: Admission;
  /** From where it came; undefined for what came from inside. */
  readonly from?: Origin | undefined;
}

/** Which calls leave an audit record, and what it says. */
export interface AuditRule<Input, Output> {
  /** Which successful calls are recorded: all, or only those of operators in other tenants. */
  readonly of: "all" | "other tenants";
  /** The operation writes the record of its success, together with what it changes. */
  readonly byItself?: true;
  readonly target?: (input: Input) => string;
  readonly detail?: (output: Output) => string;
}

export interface Operation<Input, Output> {
  /** Names it in metrics and logs. */
  readonly name: string;
  readonly access: AccessKind;
  readonly scope: Scope | undefined;
  /** It is of no use without payloads or results, and refused where they are hidden. */
  readonly showsPayloads?: true;
  /** Browsers may call it with a token for the only task that it shows. */
  readonly takesPublicTokens?: true;
  /** An operator may name all tenants at once; the tenant of the call is `everyTenant` then. */
  readonly forEveryTenant?: true;
  /** Which rate limit it counts in, and as what. */
  readonly rate?: Rate;
  /** What administrators do has one; refusals of access are recorded without. */
  readonly audit?: AuditRule<Input, Output>;
  /** Refusals of parts inside an answer that is none. */
  readonly refusalsIn?: (output: Output) => Iterable<ErrorCode>;
  /** Decides before it returns; only what takes time is waited for. */
  readonly run: (server: Server, call: Call, input: Input) => MaybePromise<Answer<Output>>;
}

/** The task that a worker names. */
export interface OwnedTaskInput {
  readonly id: TaskId;
  /** The fencing token of the claim; undefined when the worker does not send it. */
  readonly leaseToken: number | undefined;
}

export function ownedTask(
  call: Pick<Call, "identity">,
  input: OwnedTaskInput,
): { tenantId: TenantId; id: TaskId; owner: Owner } {
  const { tenantId, workerId } = call.identity;
  const { id, leaseToken } = input;
  return { tenantId, id, owner: { workerId, leaseToken } };
}
