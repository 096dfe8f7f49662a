/**
 * A claim in one object: the request of a worker, its position in the wait lists while there is no work, and the
 * receiver of the answer. It is answered once, with no tasks when its time is up.
 */
import type { TenantId, WorkerId } from "@codeq/queue";
import type { ClaimedTask, Refused, Waiter } from "../verbs.ts";
import type { WaitList } from "./wait-list.ts";

export interface ClaimRequest {
  readonly tenantId: TenantId;
  readonly workerId: WorkerId;
  /** Names of queues; undefined for every queue of the tenant. */
  readonly queues: readonly string[] | undefined;
  readonly leaseMs: number;
  readonly count: number;
  /** Infinity for as long as the caller is there. */
  readonly waitMs: number;
}

export abstract class Claim implements Waiter<readonly ClaimedTask[]> {
  readonly tenantId: TenantId;
  readonly workerId: WorkerId;
  readonly queues: readonly string[] | undefined;
  readonly leaseMs: number;
  readonly count: number;
  /** How many of `count` the rate limit of the caller allows. */
  counted: number;
  readonly waitMs: number;
  /** Grows with every claim that waits. WaitingClaims sets this field and the next ones. */
  ticket = 0;
  isWaiting = false;
  waitLists: readonly WaitList[] = [];
  /** When the wait ends, on the monotonic clock; a router needs it to continue the wait. */
  waitUntilMs = 0;
  cancelTimer: (() => void) | undefined = undefined;
  /** The claim is choosing its tasks. */
  isTaking = false;
  /** The caller has gone. */
  isCancelled = false;
  /** The tasks are decided, and on their way. */
  isServed = false;

  constructor(request: ClaimRequest) {
    this.tenantId = request.tenantId;
    this.workerId = request.workerId;
    this.queues = request.queues;
    this.leaseMs = request.leaseMs;
    this.count = request.count;
    this.counted = request.count;
    this.waitMs = request.waitMs;
  }

  /** Called in the event loop turn in which the tasks became durable. */
  abstract durable(tasks: readonly ClaimedTask[]): void;
  abstract refused(why: Refused): void;
}
