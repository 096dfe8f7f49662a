/**
 * What clients of a cluster were told of each task. An answer must not contradict what somebody had been
 * told before the question was asked, whichever nodes gave the two answers:
 *
 * - a task that was acknowledged is found, and one that has ended stays so;
 * - nobody reads an earlier lease than was read or handed out before;
 * - a task has one live lease: tokens grow, none is handed out twice, and the holder of an older one can do
 *   nothing any more.
 */
import type { Task, TaskId, TenantId } from "@codeq/queue";

export interface Known {
  readonly tenantId: TenantId;
  isDone: boolean;
  /** The highest lease that anybody was told of. */
  lease: number;
  /** The leases that were handed out, with when that was told, as a count of what was told. */
  readonly leases: Map<number, number>;
}

/** What was known of a task when somebody asked for it. */
export type Before = Pick<Known, "isDone" | "lease">;

export class ClusterLedger {
  readonly tasks: Map<TaskId, Known> = new Map();
  finding: string | undefined;
  #told = 0;

  /** The moment, for a question that names no task. */
  get now(): number {
    return this.#told;
  }

  created(id: TaskId, tenantId: TenantId): Known {
    const known = this.tasks.get(id) ?? { tenantId, isDone: false, lease: 0, leases: new Map() };
    this.tasks.set(id, known);
    return known;
  }

  before(id: TaskId): Before {
    const { isDone = false, lease = 0 } = this.tasks.get(id) ?? {};
    return { isDone, lease };
  }

  /** A claim that was made at this moment was given the task. */
  claimed({ id, tenantId, leaseToken }: Task, askedAt: number): void {
    const known = this.created(id, tenantId);
    if (known.leases.has(leaseToken)) {
      this.broken(`${id} was given out twice with lease ${leaseToken}`);
    }
    for (const [earlier, toldAt] of known.leases) {
      if (toldAt > askedAt || earlier < leaseToken) continue;
      this.broken(`${id} was given out with lease ${leaseToken}, and before with ${earlier}`);
    }
    this.#told += 1;
    known.leases.set(leaseToken, this.#told);
    known.lease = Math.max(known.lease, leaseToken);
  }

  read(id: TaskId, found: Task | undefined, before: Before): void {
    const known = this.tasks.get(id) as Known;
    if (found === undefined) {
      this.broken(`${id} was acknowledged and is not found`);
      return;
    }
    const { place, leaseToken } = found;
    if (before.isDone && place.in !== "done") {
      this.broken(`${id} has ended, and a read says ${place.in}`);
    }
    if (leaseToken < before.lease) {
      this.broken(`a read of ${id} went back from lease ${before.lease} to ${leaseToken}`);
    }
    known.lease = Math.max(known.lease, leaseToken);
    if (place.in === "done") known.isDone = true;
  }

  /** A worker was told that what it did under its lease was accepted. */
  worked(id: TaskId, leaseToken: number, before: Before): void {
    if (leaseToken >= before.lease) return;
    this.broken(`${id} took the word of lease ${leaseToken}, and ${before.lease} had been told of`);
  }

  broken(what: string): void {
    this.finding ??= what;
  }
}
