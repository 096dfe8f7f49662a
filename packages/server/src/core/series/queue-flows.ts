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
  /** A task of it has moved in the minute that runs. */
  hasMoved = false;
  /** What there was when the minute began, and how much the minute before added. */
  #atStart: Flow = noFlow();
  #before: Flow = noFlow();

  constructor(tenantId: TenantId, name: string) {
    this.tenantId = tenantId;
    this.name = name;
  }

  /** Of the minute that runs. */
  get current(): Flow {
    return addFlow(this, this.#atStart, -1);
  }

  /** Of the minute before the one that runs. */
  get before(): Flow {
    return this.#before;
  }

  /** A new minute begins; answers what the one that ends had. */
  turn(): Flow {
    this.#before = this.current;
    this.#atStart = addFlow(this, noFlow());
    this.hasMoved = false;
    return this.#before;
  }

  /** Of the last 60 seconds, about: the rest of them counts as a share of the minute before. */
  lastMinute(elapsedMs: number): Flow {
    const share = Math.max(0, 1 - elapsedMs / minuteMs);
    return addFlow(this.current, this.#before, share);
  }
}

export class QueueFlows {
  readonly #tenants: Map<TenantId, Map<string, QueueFlow>> = new Map();
  /** When the minute that runs began. */
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

  /** Nothing counts in it any more. */
  drop({ tenantId, name }: QueueFlow): void {
    const queues = this.#tenants.get(tenantId);
    queues?.delete(name);
    if (queues?.size === 0) this.#tenants.delete(tenantId);
  }
}
