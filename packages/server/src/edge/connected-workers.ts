/** Which workers have a stream open, and since when. The transports with streams report them. */
import type { TaskId, TenantId, WorkerId } from "@codeq/queue";
import type { Clock } from "../core/clock.ts";
import type { Identity } from "./access/identity.ts";

export interface ConnectedWorker {
  readonly streams: number;
  /** When the first of these streams was opened. */
  readonly sinceMs: number;
  /** What the program calls itself that opened the newest of them, such as `codeq-client/0.1.0`. */
  readonly client: string | undefined;
}

interface OpenStream extends NewStream {
  readonly atMs: number;
}

interface NewStream {
  /** The user agent of the client. */
  readonly client: string | undefined;
  /** Notifies the worker that a task it works on was cancelled. */
  readonly sendCancelled: (id: TaskId) => void;
}

export class ConnectedWorkers {
  readonly #clock: Clock;
  /** When each stream was opened. */
  readonly #opened: Map<TenantId, Map<WorkerId, Set<OpenStream>>> = new Map();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns how to say that the stream is gone. */
  add(
    { tenantId, workerId }: Pick<Identity, "tenantId" | "workerId">,
    opened: NewStream,
  ): () => void {
    const workers = this.#opened.get(tenantId) ?? new Map<WorkerId, Set<OpenStream>>();
    this.#opened.set(tenantId, workers);
    const streams = workers.get(workerId) ?? new Set();
    workers.set(workerId, streams);
    const stream = { ...opened, atMs: this.#clock.nowMs() };
    streams.add(stream);
    return () => {
      streams.delete(stream);
      if (streams.size === 0 && workers.get(workerId) === streams) workers.delete(workerId);
      if (workers.size === 0 && this.#opened.get(tenantId) === workers) {
        this.#opened.delete(tenantId);
      }
    };
  }

  /** On all its streams: which of them has the task is not known. */
  sendCancelled(tenantId: TenantId, workerId: WorkerId, id: TaskId): void {
    for (const stream of this.#opened.get(tenantId)?.get(workerId) ?? []) stream.sendCancelled(id);
  }

  *of(tenantId: TenantId): Generator<readonly [WorkerId, ConnectedWorker]> {
    for (const [workerId, streams] of this.#opened.get(tenantId) ?? []) {
      const [first] = streams;
      const client = [...streams].at(-1)?.client;
      yield [workerId, { streams: streams.size, sinceMs: first?.atMs ?? 0, client }];
    }
  }
}
