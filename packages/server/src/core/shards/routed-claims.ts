/**
 * Claims over several shards. Shards report which queues have work. A claim is sent to the shard with the
 * best work, and waits here while no shard has any, so it is in one place at any time. Within a shard the
 * order is exact; between shards it is as good as the last reports, and shards with equal priorities take
 * turns by how many shares their lanes should get. A claim that wants more tasks than one shard has goes on to the next shard, and never waits once it
 * has a task.
 */
import { FaultError } from "@codeq/engine";
import { endTag, startTag, type TenantId } from "@codeq/queue";
import type { Claim } from "../broker/claims/claim.ts";
import { WaitingClaims } from "../broker/claims/waiting-claims.ts";
import type { ClaimedTask, Refused, Waiter } from "../broker/verbs.ts";
import type { Clock } from "../clock.ts";
import type { RemoteShard } from "./remote-shard.ts";
import { type Hint, type RoutedQueue, RoutedQueues } from "./routed-queues.ts";
import type { SharedUsage } from "./shared-usage.ts";
import type { notes, ValueOf } from "./wire.ts";

const nothing: readonly ClaimedTask[] = [];

interface Pick {
  readonly queue: RoutedQueue;
  readonly shard: number;
}

/** A claim that is on its way to a shard; the shard may have fewer tasks than it was asked for. */
interface AskedFor {
  readonly number: number;
  readonly queue: RoutedQueue;
  readonly count: number;
}

export interface RoutedClaimsParts {
  readonly shards: readonly RemoteShard[];
  readonly usage: SharedUsage;
  readonly clock: Clock;
  /** Whether a shard accepts claims now. */
  readonly isOpen: (shard: number) => boolean;
}

export class RoutedClaims {
  readonly waiting: WaitingClaims;
  readonly #parts: RoutedClaimsParts;
  readonly queues: RoutedQueues;
  /** Called with every queue that a shard reported. */
  onMoved: ((queue: RoutedQueue) => void) | undefined;
  /** The claims whose effects may not be in the reports yet, by shard. */
  readonly #asked: AskedFor[][];
  /** Claims that are with a shard. */
  readonly #away: Set<Claim> = new Set();
  /** Queues with work that may not have been offered to waiting claims. */
  readonly #reported: Set<RoutedQueue> = new Set();
  readonly #freed: Set<TenantId> = new Set();
  /** The shard with which the next choice among equals begins. */
  #turn = 0;
  /** The start tag of the last choice: shards are chosen by start-time fair queueing, as lanes are. */
  #presentTag = 0;

  constructor(parts: RoutedClaimsParts) {
    this.#parts = parts;
    this.queues = new RoutedQueues(parts.shards.length);
    this.#asked = parts.shards.map(() => []);
    this.waiting = new WaitingClaims(parts.clock, this.queues);
  }

  claim(claim: Claim): void {
    if (claim.isCancelled) {
      claim.durable(nothing);
      return;
    }
    claim.waitUntilMs = this.#parts.clock.monotonicMs() + claim.waitMs;
    if (this.#send(claim)) return;
    if (claim.waitMs > 0) this.waiting.wait(claim);
    else claim.durable(nothing);
  }

  /** The caller has gone: answers with no tasks, unless the claim is with a shard already. */
  cancel(claim: Claim): void {
    claim.isCancelled = true;
    this.waiting.finish(claim);
  }

  /** Ends all waits; a claim that comes back from a shard without tasks does not wait again. */
  stopWaiting(): void {
    for (const claim of this.#away) claim.waitUntilMs = Number.NEGATIVE_INFINITY;
    this.waiting.finishAll();
  }

  hint(
    shard: number,
    { tenantId, queue: name, ready, topPriority, shares }: ValueOf<typeof notes.hint>,
  ): void {
    const queue = ready > 0 ? this.queues.queue(tenantId, name) : this.queues.find(tenantId, name);
    if (queue === undefined) return;
    const hint = queue.hints[shard] as Hint;
    hint.ready = ready;
    hint.topPriority = topPriority;
    hint.shares = shares;
    queue.changed();
    this.onMoved?.(queue);
    if (ready > 0) this.#reported.add(queue);
    else this.queues.dropIfIdle(queue);
  }

  /** A report of the leases of a queue with a topic. */
  leased(
    shard: number,
    { tenantId, queue: name, leased, max, isPlaced }: ValueOf<typeof notes.leased>,
  ): void {
    this.queues.place({ tenantId, name }, isPlaced);
    if (max === 0) {
      this.unlimited({ tenantId, name });
      return;
    }
    const queue = this.queues.queue(tenantId, name);
    if (queue.leasedMax === Number.POSITIVE_INFINITY) queue.tenant.limitedQueues += 1;
    queue.leasedMax = max;
    queue.leased[shard] = leased;
    queue.changed();
    this.onMoved?.(queue);
    this.#reported.add(queue);
  }

  /** The queue may have any number of leases. */
  unlimited({ tenantId, name }: { readonly tenantId: TenantId; readonly name: string }): void {
    const queue = this.queues.find(tenantId, name);
    if (queue === undefined || queue.leasedMax === Number.POSITIVE_INFINITY) return;
    queue.tenant.limitedQueues -= 1;
    queue.leasedMax = Number.POSITIVE_INFINITY;
    queue.leased.fill(0);
    queue.changed();
    this.#reported.add(queue);
    this.serveReported();
  }

  /** A tenant may have leases left. */
  freed(tenantId: TenantId): void {
    if (this.queues.findTenant(tenantId)?.isHeldBack) this.#freed.add(tenantId);
  }

  /** Serves claims that wait for the work that the shards have reported. */
  serveReported(): void {
    for (const tenantId of this.#freed) this.#serveTenant(tenantId);
    this.#freed.clear();
    const reported = [...this.#reported];
    this.#reported.clear();
    for (const queue of reported) this.#serveQueue(queue);
  }

  /** The reports of the shard contain all claims up to this call. */
  carriedOut(shard: number, number: number, undecided: readonly number[]): void {
    const asked = this.#asked[shard] as AskedFor[];
    if (asked.length === 0) return;
    this.#asked[shard] = asked.filter((each) => {
      const isUnderWay = each.number > number || undecided.includes(each.number);
      if (!isUnderWay) this.#settle(shard, each);
      return isUnderWay;
    });
  }

  /** A shard accepts claims again: the work that it reported before has not been offered yet. */
  opened(shard: number): void {
    for (const queue of this.queues.all()) {
      if ((queue.hints[shard] as Hint).ready > 0) this.#reported.add(queue);
    }
  }

  /** The shard is going to report everything again. */
  forget(shard: number): void {
    this.queues.forget(shard);
    for (const queue of this.queues.all()) {
      queue.leased[shard] = 0;
      queue.changed();
    }
  }

  /** The shard is gone; the claims that are with it fail next. */
  down(shard: number): void {
    for (const each of (this.#asked[shard] as AskedFor[]).splice(0)) {
      // The shard may have leased the tasks, and reports that when it is back.
      (each.queue.leased[shard] as number) += each.count;
      this.#settle(shard, each);
    }
    this.queues.forget(shard);
  }

  #settle(shard: number, { queue, count }: AskedFor): void {
    (queue.hints[shard] as Hint).asked -= count;
    queue.changed();
    this.#reported.add(queue);
    this.queues.dropIfIdle(queue);
  }

  #serveTenant(tenantId: TenantId): void {
    const tenant = this.queues.findTenant(tenantId);
    if (tenant === undefined || this.#parts.usage.quotas.leasesLeft(tenantId) === 0) return;
    tenant.isHeldBack = false;
    for (const queue of [...tenant.queues.values()]) {
      this.#serveQueue(queue);
      if (tenant.isHeldBack) return;
    }
  }

  #serveQueue(queue: RoutedQueue): void {
    while (this.#hasWork(queue)) {
      const claim = this.waiting.next(queue);
      if (claim === undefined) return;
      this.waiting.leave(claim);
      if (this.#send(claim)) continue;
      this.#waitAgain(claim);
      return;
    }
  }

  #hasWork({ hints, leasesLeft }: RoutedQueue): boolean {
    if (leasesLeft <= 0) return false;
    return hints.some(({ ready, asked }, shard) => ready > asked && this.#parts.isOpen(shard));
  }

  #waitAgain(claim: Claim): void {
    const leftMs = claim.waitUntilMs - this.#parts.clock.monotonicMs();
    if (leftMs > 0 && !claim.isCancelled) this.waiting.waitAgain(claim, leftMs);
    else claim.durable(nothing);
  }

  /**
   * Sends the claim to the shard with the best work for it, for as many tasks as are missing; false when no shard
   * has work.
   */
  #send(claim: Claim, got = nothing): boolean {
    const { tenantId } = claim;
    const count = Math.min(
      claim.counted - got.length,
      this.#parts.usage.quotas.leasesLeft(tenantId),
    );
    if (count === 0) {
      this.queues.tenant(tenantId).isHeldBack = true;
      return false;
    }
    const pick = this.#best(claim);
    if (pick === undefined) return false;
    this.#sendTo(pick, claim, got, Math.min(count, pick.queue.leasesLeft));
    return true;
  }

  #sendTo(pick: Pick, claim: Claim, got: readonly ClaimedTask[], count: number): void {
    const { usage, shards } = this.#parts;
    const { tenantId, workerId, leaseMs } = claim;
    // Where queues have limits, a claim names the one queue whose limit it was counted against.
    const isLimited = pick.queue.tenant.limitedQueues > 0;
    const queues = isLimited ? [pick.queue.name] : claim.queues;
    const hint = pick.queue.hints[pick.shard] as Hint;
    this.#presentTag = startTag(this.#presentTag, hint.endTag);
    const cost = Math.min(count, hint.ready - hint.asked);
    hint.endTag = endTag(this.#presentTag, { cost, weight: hint.shares });
    hint.asked += count;
    pick.queue.changed();
    this.#turn = (pick.shard + 1) % shards.length;
    const request = { tenantId, workerId, queues, leaseMs, count, waitMs: 0 };
    this.#away.add(claim);
    const asked = new AskedShard(claim, (tasks) => this.#answered(claim, got, tasks));
    const number = shards[pick.shard]?.claim(request, asked) ?? 0;
    this.#asked[pick.shard]?.push({ number, queue: pick.queue, count });
    usage.send(pick.shard, number, tenantId, { leased: count });
  }

  #best({ tenantId, queues }: Claim): Pick | undefined {
    const { shards, isOpen } = this.#parts;
    const tenant = this.queues.findTenant(tenantId);
    const requested = queues?.flatMap((name) => tenant?.queues.get(name) ?? []);
    let best: Pick | undefined;
    let bestRank = Number.POSITIVE_INFINITY;
    let bestTag = Number.POSITIVE_INFINITY;
    for (let step = 0; step < shards.length; step++) {
      const shard = (this.#turn + step) % shards.length;
      if (!isOpen(shard)) continue;
      const hint =
        requested === undefined ? tenant?.orders[shard]?.first() : first(requested, shard);
      const rank = hint?.rank;
      if (hint === undefined || rank === undefined || rank > bestRank) continue;
      const tag = startTag(this.#presentTag, hint.endTag);
      if (rank === bestRank && tag >= bestTag) continue;
      best = { queue: hint.queue, shard };
      bestRank = rank;
      bestTag = tag;
    }
    return best;
  }

  /** A shard without tasks has reported that before its answer; others may have tasks. */
  #answered(
    claim: Claim,
    got: readonly ClaimedTask[],
    tasks: readonly ClaimedTask[] | Refused,
  ): void {
    this.#away.delete(claim);
    if (!isTasks(tasks)) {
      if (got.length > 0) claim.durable(got);
      else this.#refused(claim, tasks);
    } else if (got.length + tasks.length > 0) {
      this.#fill(claim, got.length === 0 ? tasks : [...got, ...tasks]);
    } else if (claim.isCancelled || !this.#send(claim)) {
      this.#waitAgain(claim);
    }
  }

  /** Asks the next shard that reported work for the missing tasks. */
  #fill(claim: Claim, tasks: readonly ClaimedTask[]): void {
    const isEnough = tasks.length >= claim.counted || claim.isCancelled;
    if (isEnough || !this.#send(claim, tasks)) claim.durable(tasks);
  }

  /** A shard that fails does not keep the claim from the other shards. */
  #refused(claim: Claim, why: Refused): void {
    const isFault = why instanceof FaultError;
    if (
      isFault &&
      !claim.isCancelled &&
      this.#parts.shards.some((_, at) => this.#parts.isOpen(at))
    ) {
      if (!this.#send(claim)) this.#waitAgain(claim);
    } else claim.refused(why);
  }
}

/** What a shard reported about the queue that comes first. */
function first(queues: readonly RoutedQueue[], shard: number): Hint | undefined {
  let best: Hint | undefined;
  let bestRank = Number.POSITIVE_INFINITY;
  for (const { hints } of queues) {
    const hint = hints[shard] as Hint;
    const rank = hint.rank ?? Number.POSITIVE_INFINITY;
    if (rank >= bestRank) continue;
    best = hint;
    bestRank = rank;
  }
  return best;
}

function isTasks(given: readonly ClaimedTask[] | Refused): given is readonly ClaimedTask[] {
  return Array.isArray(given);
}

/** A claim while it is with a shard. */
class AskedShard implements Waiter<readonly ClaimedTask[]> {
  readonly claim: Claim;
  readonly #answered: (given: readonly ClaimedTask[] | Refused) => void;

  constructor(claim: Claim, answered: (given: readonly ClaimedTask[] | Refused) => void) {
    this.claim = claim;
    this.#answered = answered;
  }

  durable(tasks: readonly ClaimedTask[]): void {
    this.#answered(tasks);
  }

  refused(why: Refused): void {
    this.#answered(why);
  }
}
