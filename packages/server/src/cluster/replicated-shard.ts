/**
 * One shard on a node of a cluster: a copy of its data that follows the shared log and, while this node
 * leads, the broker with everything around it. Routers of all nodes, this one included, talk to it
 * through a `ShardHost` each.
 *
 * A node that cannot be sure to lead holds calls back until it is sure again, or has been deposed. So no caller gets
 * a state that another leader has changed meanwhile.
 */
import { FaultError, type LeaderLog, type Leading } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import type { ShardBroker } from "../core/broker/shard-broker.ts";
import { ShardHost } from "../core/shards/shard-host.ts";
import { type FollowedTask, Store } from "../core/store/store.ts";
import { Feed } from "../telemetry/feed.ts";
import { LogReplica, type LogReplicaParts } from "./log-replica.ts";

/** The longest delay of a hint that a queue has more or fewer tasks; hints that it has any tasks are not delayed. */
const hintGapMs = 5;

export interface ReplicatedShardParts extends LogReplicaParts {
  readonly number: number;
  readonly count: number;
  readonly flushBytes: number;
  /** Whether tenants have quotas that the routers have to know about. */
  readonly isLimited: boolean;
  /** Opens the shard on this log. */
  readonly openShard: (opening: Opening) => Promise<OpenedShard>;
  readonly onBug: (error: unknown) => void;
}

export interface Opening {
  readonly log: LeaderLog;
  readonly feed: Feed;
  /** Called when the storage begins or ceases to accept writes. */
  readonly onState: (fault: FaultError | undefined) => void;
}

export interface LocalTask extends FollowedTask {
  readonly appliedIndex: number;
}

export interface OpenedShard extends AsyncDisposable {
  readonly broker: ShardBroker;
  readonly scrape: () => string;
}

/** The router on the other side. */
export interface Caller {
  hear(message: Uint8Array<ArrayBuffer>): void;
  /** Called when this end answers no more. */
  end(): void;
}

/** The end of a channel that a router sends to. */
export interface Hosting {
  take(message: Uint8Array): void;
  close(): void;
}

interface Led {
  readonly log: LeaderLog;
  readonly feed: Feed;
  readonly broker: ShardBroker;
  readonly scrape: () => string;
  readonly hosts: Set<ShardHost>;
}

export class ReplicatedShard extends LogReplica {
  readonly #parts: ReplicatedShardParts;
  readonly #calls: Set<Channel> = new Set();
  #led: Led | undefined;

  constructor(parts: ReplicatedShardParts) {
    const { number: shard, count, flushBytes } = parts;
    const kind = { shards: count, shard: shardName(parts) };
    super(parts, { shard, kind, flushBytes, isHeard: false });
    this.#parts = parts;
  }

  get number(): number {
    return this.#parts.number;
  }

  /** The broker, while this node leads. */
  get broker(): ShardBroker | undefined {
    return this.#led?.broker;
  }

  /**
   * The local copy of a task, without asking the leader, and how many records this node has applied. Undefined
   * while the node does not follow, or does not have the task.
   */
  local(tenantId: TenantId, id: TaskId): LocalTask | undefined {
    const { role, index } = this.status;
    if (role !== "following" && role !== "candidate") return undefined;
    const found = Store.followed(this.follower, id);
    return found?.task.tenantId === tenantId ? { ...found, appliedIndex: index } : undefined;
  }

  /** The metrics of the shard, while this node leads. */
  scrape(): string | undefined {
    return this.#led?.scrape();
  }

  /** Opens a channel of a router to the shard. Undefined when this node does not lead. */
  call(caller: Caller): Hosting | undefined {
    const led = this.#led;
    if (led === undefined || led.log.isStuck) return undefined;
    const { number: shard, count, isLimited, clock, defer, onBug } = this.#parts;
    const channel = new Channel(caller, led.log, () => this.#calls.delete(channel));
    this.#calls.add(channel);
    const { broker, feed, scrape } = led;
    const send = (message: Uint8Array<ArrayBuffer>): void => channel.say(message);
    const deferHints = (run: () => void): void => void clock.after(hintGapMs, run);
    const hosted = {
      broker,
      feed,
      shard,
      count,
      isLimited,
      defer,
      deferHints,
      send,
      onBug,
      scrape,
    };
    ShardHost.open(hosted, (host) => led.hosts.add(host)).then(
      (host) =>
        channel.open(host, () => {
          led.hosts.delete(host);
          host.close();
        }),
      () => channel.end(),
    );
    return channel;
  }

  applied(): void {
    // Reads use the follower.
  }

  async open(log: LeaderLog): Promise<Leading> {
    const hosts: Set<ShardHost> = new Set();
    const feed = new Feed();
    const onState = (fault: FaultError | undefined): void => {
      // Nothing is wrong with the storage of a node that was deposed, and the routers soon talk to the next leader.
      if (fault?.code === "not_leader" || fault?.code === "unknown") return;
      for (const host of hosts) host.reportState(fault);
    };
    const opened = await this.#parts.openShard({ log, feed, onState });
    const { broker, scrape } = opened;
    broker.onMoved = (queue) => {
      for (const host of hosts) host.moved(queue);
    };
    broker.onRecovered.add(() => {
      for (const host of hosts) host.recovered();
    });
    broker.webhooks.onEndpoint = (change) => {
      // One router notifies all shards, and stores the change.
      const [host] = hosts;
      host?.endpointChanged(change);
    };
    log.onSure = () => {
      for (const call of this.#calls) call.goOn();
    };
    // Whether their changes are made is not known yet, and callers do better with the next leader.
    log.onStuck = () => this.#endCalls();
    this.#led = { log, feed, broker, scrape, hosts };
    return {
      settle: () => broker.store.settle(),
      mark: () => broker.store.mark(),
      [Symbol.asyncDispose]: () => this.#close(opened),
    };
  }

  async #close(opened: OpenedShard): Promise<void> {
    this.#led = undefined;
    await opened[Symbol.asyncDispose]();
    // Send the refusals before the routers learn that this node answers no more.
    await new Promise<void>(this.#parts.defer);
    this.#endCalls();
  }

  #endCalls(): void {
    for (const call of [...this.#calls]) call.end();
  }
}

/** A shard that is the only one has no number in its store. */
function shardName({ number, count }: ReplicatedShardParts): number | undefined {
  return count === 1 ? undefined : number;
}

class Channel implements Hosting {
  readonly #caller: Caller;
  readonly #log: LeaderLog;
  readonly #onEnd: () => void;
  #host: ShardHost | undefined;
  #closeHost: () => void = () => {};
  /** Calls that arrived while there was no host, or while it was not sure that this node leads. */
  #kept: Uint8Array[] = [];
  #hasEnded = false;

  constructor(caller: Caller, log: LeaderLog, onEnd: () => void) {
    this.#caller = caller;
    this.#log = log;
    this.#onEnd = onEnd;
  }

  open(host: ShardHost, close: () => void): void {
    if (this.#hasEnded) {
      close();
      return;
    }
    this.#host = host;
    this.#closeHost = close;
    this.goOn();
  }

  take(message: Uint8Array): void {
    if (this.#hasEnded) return;
    this.#kept.push(message);
    this.goOn();
  }

  /** Carries out held calls, as far as this node is sure to lead. */
  goOn(): void {
    if (this.#host === undefined || this.#kept.length === 0 || !this.#log.isSure) return;
    for (const message of this.#kept.splice(0)) this.#host.take(message);
  }

  say(message: Uint8Array<ArrayBuffer>): void {
    if (!this.#hasEnded) this.#caller.hear(message);
  }

  /** The router has gone. */
  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#closeHost();
    this.#onEnd();
  }

  /** This node leads no longer. */
  end(): void {
    if (this.#hasEnded) return;
    this.close();
    this.#caller.end();
  }
}

/** The answer while no node is known to lead. */
export function noLeader(shard: number): FaultError {
  return new FaultError("not_leader", `no node leads ${nameOf(shard)} at the moment`);
}

/** The answer to calls that were under way when their leader was gone. */
export function leaderGone(shard: number): FaultError {
  return new FaultError("unknown", `the node that led ${nameOf(shard)} is gone`);
}

/** The number of the control log where shards have numbers. */
export const controlNumber = 0xffff_ffff;

/** The name of a replicated log for people. */
export function nameOf(shard: number): string {
  return shard === controlNumber ? "the control log" : `shard ${shard}`;
}
