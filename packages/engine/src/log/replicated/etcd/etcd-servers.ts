/**
 * The logs of a cluster in etcd, and the members of etcd.
 *
 * Only `create` and `renew` make a log; `open` of a missing log returns undefined. A log is renewed only if it is still
 * as it was when the decision was made: an append in between makes the call fail.
 */
import * as messages from "@codeq/protocol/etcd";
import type { WireUint64 } from "@codeq/protocol/wire";
import type { EngineClock } from "../../../engine-options.ts";
import { FaultError } from "../../../fault.ts";
import type { LogBounds, SharedLog } from "../shared-log.ts";
import { EtcdClient, etcdMethods } from "./etcd-client.ts";
import { keysOf, slotValue } from "./etcd-keys.ts";
import {
  answered,
  deleteOp,
  EtcdSharedLog,
  firstRecordOp,
  headCompare,
  lastOf,
  metaIn,
  putOp,
  rangeOp,
  recordBytesMax,
  valuesOf,
} from "./etcd-shared-log.ts";
import { EtcdSpace } from "./etcd-space.ts";
import { GrpcError, type GrpcTls, grpcStatus } from "./grpc-channel.ts";

export interface EtcdServersOptions {
  /** The client URLs of the members, the nearest one first. */
  readonly urls: readonly string[];
  readonly tls?: GrpcTls | undefined;
  readonly clock: EngineClock;
  /** The id of this node. */
  readonly node: string;
  /** What the keys of the cluster begin with. */
  readonly prefix?: string | undefined;
}

export interface NewLog {
  readonly logId: number;
  /** Above 1 for a log that continues another log. */
  readonly firstSlot?: number | undefined;
}

export interface FoundLog {
  readonly logId: number;
  readonly bounds: LogBounds;
  /** The revision of the write that made this log. */
  readonly revision: number;
}

export interface EtcdMember {
  readonly id: WireUint64;
  /** Empty for a member that was added and has not started yet. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly clientUrls: readonly string[];
  /** A learner copies the data and does not vote. */
  readonly isLearner: boolean;
}

export interface MemberHealth {
  readonly version: string;
  readonly isLeader: boolean;
  readonly usedBytes: number;
  readonly fileBytes: number;
  /** Records that the member has and has not applied yet. */
  readonly behind: number;
  /** How many records of all logs the member has applied. */
  readonly applied: number;
  readonly problems: readonly string[];
}

const prefixDefault = "codeq/";
const askTimeoutMs = 2000;
const healthTimeoutMs = 1000;
const versionsMin: readonly (readonly number[])[] = [
  [3, 5, 26],
  [3, 6, 0],
];
const alreadyCompacted = "compacted";

export class EtcdServers implements AsyncDisposable {
  readonly #client: EtcdClient;
  readonly #space: EtcdSpace;
  readonly #options: EtcdServersOptions;

  constructor(options: EtcdServersOptions) {
    this.#options = options;
    this.#client = new EtcdClient(options);
    this.#space = new EtcdSpace(this.#client, options.clock);
  }

  /** For connections from now on. */
  useTls(tls: GrpcTls): void {
    this.#client.useTls(tls);
  }

  /** The URL of the member in use. */
  get url(): string {
    return this.#client.url;
  }

  /** Makes a new log; returns false when there is another one of this name. */
  async create(name: string, log: NewLog): Promise<boolean> {
    const keys = this.#keys(name);
    const request = {
      compare: [this.#metaCompare(name, 0)],
      success: this.#newLogOps(name, log),
      failure: [rangeOp(keys.meta)],
    };
    const { succeeded, responses } = await answered(
      this.#client.ask(etcdMethods.txn, request, { timeoutMs: askTimeoutMs }),
    );
    if (succeeded) return true;
    const [found] = responses.flatMap(valuesOf);
    // An earlier try of which no answer came may have made it.
    return found !== undefined && metaIn(found.value).logId === log.logId;
  }

  /** Replaces a log that was found, or that is gone, by an empty one; false when it has changed since. */
  async renew(name: string, found: FoundLog | undefined, log: NewLog): Promise<boolean> {
    if (found === undefined) return await this.create(name, log);
    const keys = this.#keys(name);
    const request = {
      compare: [
        this.#metaCompare(name, found.revision),
        headCompare(keys, found.bounds.last, "EQUAL"),
      ],
      success: [deleteOp(keys.records, keys.recordsEnd), ...this.#newLogOps(name, log)],
      failure: [rangeOp(keys.meta)],
    };
    const { succeeded, responses } = await answered(
      this.#client.ask(etcdMethods.txn, request, { timeoutMs: askTimeoutMs }),
    );
    if (succeeded) return true;
    const [meta] = responses.flatMap(valuesOf);
    return meta !== undefined && metaIn(meta.value).logId === log.logId;
  }

  /** Which log it is, and where its records are; undefined when there is no log of this name. */
  async look(name: string): Promise<FoundLog | undefined> {
    const keys = this.#keys(name);
    const success = [rangeOp(keys.meta), rangeOp(keys.head), firstRecordOp(keys)];
    const request = { compare: [], success, failure: [] };
    const answer = await answered(
      this.#client.ask(etcdMethods.txn, request, { timeoutMs: askTimeoutMs }),
    );
    const [[meta] = [], head, [first] = []] = answer.responses.map(valuesOf);
    if (meta === undefined) return undefined;
    const last = lastOf(head);
    return {
      logId: metaIn(meta.value).logId,
      revision: Number(meta.modRevision),
      bounds: { first: first === undefined ? last + 1 : keys.slotOf(first.key), last },
    };
  }

  async open(name: string): Promise<SharedLog | undefined> {
    const found = await this.look(name);
    if (found === undefined) return undefined;
    const { node, clock } = this.#options;
    return new EtcdSharedLog({
      client: this.#client,
      space: this.#space,
      keys: this.#keys(name),
      name,
      node,
      clock,
      logId: found.logId,
      revision: found.revision,
      head: found.bounds.last,
      compact: (revision) => this.#compact(revision),
    });
  }

  async members(): Promise<readonly EtcdMember[]> {
    const request = { linearizable: true };
    const { members } = await answered(
      this.#client.ask(etcdMethods.memberList, request, { timeoutMs: askTimeoutMs }),
    );
    return members;
  }

  /** Whether an etcd answers at this URL, a member of the majority or not. */
  async isUp(url: string): Promise<boolean> {
    return (await this.health({ id: 0, clientUrls: [url] })) !== undefined;
  }

  /** Undefined when the member does not answer. */
  async health({
    id,
    clientUrls,
  }: Pick<EtcdMember, "id" | "clientUrls">): Promise<MemberHealth | undefined> {
    for (const url of clientUrls) {
      try {
        const status = await this.#client.callAt(url, {
          method: etcdMethods.status,
          request: undefined,
          timeoutMs: healthTimeoutMs,
        });
        return {
          version: status.version,
          isLeader: status.leader === id,
          usedBytes: Number(status.dbSizeInUse),
          fileBytes: Number(status.dbSize),
          behind: Number(status.raftIndex) - Number(status.raftAppliedIndex),
          applied: Number(status.raftAppliedIndex),
          problems: status.errors,
        };
      } catch {
        // The next URL of the member may answer.
      }
    }
    return undefined;
  }

  async addLearner(peerUrl: string): Promise<void> {
    const request = { peerUrls: [peerUrl], isLearner: true };
    await answered(this.#client.call(etcdMethods.memberAdd, request, askTimeoutMs));
  }

  /** False when the learner has not copied everything yet. */
  async promote(id: WireUint64): Promise<boolean> {
    try {
      await this.#client.call(etcdMethods.memberPromote, { id }, askTimeoutMs);
      return true;
    } catch (error) {
      if (error instanceof GrpcError && error.status === grpcStatus.failedPrecondition)
        return false;
      return await answered(Promise.reject(error));
    }
  }

  async removeMember(id: WireUint64): Promise<void> {
    await answered(this.#client.call(etcdMethods.memberRemove, { id }, askTimeoutMs));
  }

  /** Makes another member the leader of the members, if this one is. */
  async stepDown(name: string): Promise<void> {
    const members = await this.members();
    const own = members.find((member) => member.name === name);
    const [url] = own?.clientUrls ?? [];
    if (own === undefined || url === undefined) return;
    const all = await Promise.all(members.map((member) => this.health(member)));
    const isLeader = all[members.indexOf(own)]?.isLeader === true;
    const next = members.find((member, at) => {
      return member !== own && !member.isLearner && all[at] !== undefined;
    });
    if (!isLeader || next === undefined) return;
    const request = { id: next.id };
    await answered(
      this.#client.callAt(url, {
        method: etcdMethods.moveLeader,
        request,
        timeoutMs: askTimeoutMs,
      }),
    );
  }

  /** Throws when etcd is too old, or does not take records as large as codeQ writes. */
  async assertUsable(): Promise<void> {
    const { version } = await answered(
      this.#client.ask(etcdMethods.status, undefined, { timeoutMs: askTimeoutMs }),
    );
    if (!isUsableVersion(version)) throw tooOld(`etcd at ${this.url} is ${version}`);
    // The write is refused, whatever its size: no log has this name.
    const record = Buffer.alloc(recordBytesMax);
    const request = {
      compare: [this.#metaCompare("probe", 1)],
      success: [putOp(this.#keys("probe").records, record)],
      failure: [],
    };
    try {
      await this.#client.ask(etcdMethods.txn, request, { timeoutMs: askTimeoutMs });
    } catch (error) {
      const { invalidArgument, resourceExhausted } = grpcStatus;
      const isLimit =
        error instanceof GrpcError &&
        [invalidArgument, resourceExhausted].some((status) => status === error.status);
      if (!isLimit) return await answered(Promise.reject(error));
      const advice = "Start every etcd with --max-request-bytes=9437184";
      throw new FaultError("format", `etcd refuses large records: ${error.message}. ${advice}.`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
  }

  /** Removed records take room until the history before a revision is given up. */
  async #compact(revision: number): Promise<void> {
    try {
      await this.#client.ask(etcdMethods.compact, { revision }, { timeoutMs: askTimeoutMs });
    } catch (error) {
      // Another log was compacted to a later revision.
      if (!(error as Error).message.includes(alreadyCompacted)) {
        return await answered(Promise.reject(error));
      }
    }
    this.#space.compacted();
  }

  #keys(name: string): ReturnType<typeof keysOf> {
    return keysOf(this.#options.prefix ?? prefixDefault, name);
  }

  #metaCompare(name: string, modRevision: number): messages.Compare {
    const target = messages.compareTarget.MOD;
    return { ...messages.newCompare(), target, key: this.#keys(name).meta, modRevision };
  }

  #newLogOps(name: string, { logId, firstSlot = 1 }: NewLog): messages.RequestOp[] {
    const keys = this.#keys(name);
    const meta = JSON.stringify({ logId });
    return [putOp(keys.meta, meta), putOp(keys.head, slotValue(firstSlot - 1))];
  }
}

/** Older versions corrupt data, or lose the order of revisions, after a crash. */
export function isUsableVersion(version: string): boolean {
  const parts = /^(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number);
  if (parts === undefined) return false;
  const [major = 0, minor = 0, patch = 0] = parts;
  const same = versionsMin.find(([first, second]) => first === major && second === minor);
  if (same !== undefined) return patch >= (same[2] ?? 0);
  return major > 3 || (major === 3 && minor > 6);
}

export function tooOld(what: string): FaultError {
  return new FaultError("format", `${what}, which is too old: use 3.6, or at least 3.5.26.`);
}
