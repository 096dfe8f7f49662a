/** Which workers have a stream open, and since when. Transports that keep streams tell of them. */
import type { TenantId, WorkerId } from "@codeq/queue";
import type { Identity } from "../access/identity.ts";
import type { Clock } from "../clock.ts";

export interface ConnectedWorker {
  readonly streams: number;
  /** When the first of these streams was opened. */
  readonly sinceMs: number;
}

export class ConnectedWorkers {
  readonly #clock: Clock;
  /** When each stream was opened. */
  readonly #opened: Map<TenantId, Map<WorkerId, Set<{ readonly atMs: number }>>> = new Map();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns how to say that the stream is gone. */
  add({ tenantId, workerId }: Pick<Identity, "tenantId" | "workerId">): () => void {
    const workers = this.#opened.get(tenantId) ?? new Map<WorkerId, Set<{ atMs: number }>>();
    this.#opened.set(tenantId, workers);
    const streams = workers.get(workerId) ?? new Set();
    workers.set(workerId, streams);
    const stream = { atMs: this.#clock.nowMs() };
    streams.add(stream);
    return () => {
      streams.delete(stream);
      if (streams.size === 0 && workers.get(workerId) === streams) workers.delete(workerId);
      if (workers.size === 0 && this.#opened.get(tenantId) === workers) {
        this.#opened.delete(tenantId);
      }
    };
  }

  *of(tenantId: TenantId): Generator<readonly [WorkerId, ConnectedWorker]> {
    for (const [workerId, streams] of this.#opened.get(tenantId) ?? []) {
      const [first] = streams;
      yield [workerId, { streams: streams.size, sinceMs: first?.atMs ?? 0 }];
    }
  }
}
