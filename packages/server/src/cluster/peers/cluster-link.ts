/**
 * Connects a router to a shard of a cluster, wherever its leader is. When the leader is gone, calls under way are
 * answered as unknown; later calls are refused until another node leads.
 *
 * States: down; connected to a leader (leaves when the channel ends, or when another node leads).
 */
import type { FaultError, LeaderName, ReplicaStatus } from "@codeq/engine";
import type { Clock } from "../../core/clock.ts";
import type { ShardLink } from "../../core/shards/link.ts";
import { type Caller, type Hosting, leaderGone, noLeader } from "../replicated-shard.ts";

export interface ClusterLinkParts {
  readonly shard: number;
  readonly clock: Clock;
  /** The leader of the shard, as this node knows it. */
  readonly status: () => Pick<ReplicaStatus, "leader" | "epoch">;
  /** Begins to talk to a leader, on this node or another; undefined when it does not answer. */
  readonly dial: (leader: LeaderName, shard: number, caller: Caller) => Hosting | undefined;
}

/** A leader that did not answer, or whose connection broke, is retried after this time. */
const redialMs = 100;

export class ClusterLink implements ShardLink {
  onMessage: (message: Uint8Array) => void = () => {};
  readonly #parts: ClusterLinkParts;
  #onDown: (fault: FaultError, meanwhile?: FaultError) => void = () => {};
  #talk: { readonly to: LeaderName; readonly epoch: number; readonly with: Hosting } | undefined;
  #cancelRedial: () => void = () => {};
  #isStopped = false;

  constructor(parts: ClusterLinkParts) {
    this.#parts = parts;
  }

  set onDown(listener: (fault: FaultError, meanwhile?: FaultError) => void) {
    this.#onDown = listener;
    if (this.#talk === undefined) listener(noLeader(this.#parts.shard));
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    this.#talk?.with.take(message);
  }

  /** Called when the leader may have changed. */
  look(): void {
    if (this.#isStopped) return;
    const { leader, epoch } = this.#parts.status();
    const talk = this.#talk;
    if (talk !== undefined && talk.to.id === leader?.id && talk.epoch === epoch) return;
    if (talk !== undefined) {
      talk.with.close();
      this.#ended();
    }
    if (leader !== undefined) this.#dial(leader, epoch);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRedial();
    this.#talk?.with.close();
    this.#talk = undefined;
  }

  #dial(to: LeaderName, epoch: number): void {
    this.#cancelRedial();
    const { shard, dial } = this.#parts;
    const isCurrent = (): boolean => this.#talk?.with === hosting && hosting !== undefined;
    const hosting = dial(to, shard, {
      hear: (message) => {
        if (isCurrent()) this.onMessage(message);
      },
      end: () => {
        if (!isCurrent()) return;
        this.#ended();
        this.#redial();
      },
    });
    if (hosting === undefined) this.#redial();
    else this.#talk = { to, epoch, with: hosting };
  }

  #ended(): void {
    this.#talk = undefined;
    const { shard } = this.#parts;
    this.#onDown(leaderGone(shard), noLeader(shard));
  }

  #redial(): void {
    this.#cancelRedial();
    this.#cancelRedial = this.#parts.clock.after(redialMs, () => this.look());
  }
}
