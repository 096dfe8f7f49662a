/**
 * The flow of every queue: since the shard was opened, in the current minute, and in the previous one. It is
 * separate from the index of tasks, which is rebuilt after a full disk.
 */
import type { Cause, Task, TenantId } from "@codeq/queue";
import { addFlow, countChange, type Flow, minuteMs, noFlow } from "./flow.ts";

export class QueueFlow implements Flow {
  readonly tenantId: TenantId;
  readonly name: string;
  enqueued = 0;
  completed = 0;
  failed = 0;
  retried = 0;
  /** A task of the queue has moved in the current minute. */
  hasMoved = false;
  /** The totals when the current minute began, and the flow of the previous minute. */
  #atStart: Flow = noFlow();
  #before: Flow = noFlow();

  constructor(tenantId: TenantId, name: string) {
    this.tenantId = tenantId;
    this.name = name;
  }

  /** The flow of the current minute. */
  get current(): Flow {
    return addFlow(this, this.#atStart, -1);
  }

  /** The flow of the previous minute. */
  get before(): Flow {
    return this.#before;
  }

  /** Begins a new minute; returns the flow of the minute that ends. */
  turn(): Flow {
    this.#before = this.current;
    this.#atStart = addFlow(this, noFlow());
    this.hasMoved = false;
    return this.#before;
  }

  /** An estimate for the last 60 seconds: the current minute and a share of the previous one. */
  lastMinute(elapsedMs: number): Flow {
    const share = Math.max(0, 1 - elapsedMs / minuteMs);
    return addFlow(this.current, this.#before, share);
  }
}

export class QueueFlows {
  readonly #tenants: Map<TenantId, Map<string, QueueFlow>> = new Map();
  /** When the current minute began. */
  startedMs = 0;
  /** Called when something happens and `isQuiet` was set. */
  onBusy: () => void = () => {};
  /** Nothing has happened for a while. */
  isQuiet = true;

  of(tenantId: TenantId, name: string): QueueFlow {
    let queues = this.#tenants.get(tenantId);
    if (queues === undefined) {
      queues = new Map();
      this.#tenants.set(tenantId, queues);
    }
    let flow = queues.get(name);
    if (flow === undefined) {
      flow = new QueueFlow(tenantId, name);
      queues.set(name, flow);
    }
    return flow;
  }

  count(flow: QueueFlow, because: Cause, after: Task | undefined): void {
    countChange(flow, because, after);
    flow.hasMoved = true;
    if (!this.isQuiet) return;
    this.isQuiet = false;
    this.onBusy();
  }

  tenants(): Iterable<readonly [TenantId, Iterable<QueueFlow>]> {
    return [...this.#tenants].map(([tenantId, queues]) => [tenantId, queues.values()] as const);
  }

  /** Forgets a queue without flow. */
  drop({ tenantId, name }: QueueFlow): void {
    const queues = this.#tenants.get(tenantId);
    queues?.delete(name);
    if (queues?.size === 0) this.#tenants.delete(tenantId);
  }
}
