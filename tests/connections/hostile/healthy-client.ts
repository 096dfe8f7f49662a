/**
 * A client that does honest work while others do not: a task goes from creation to its result over a
 * connection that is kept, a page is read over a new connection, and a task is created on a stream.
 * One thing at a time, with a rest in between, so that what is measured is the wait.
 */
import { credentials } from "@grpc/grpc-js";
import { HttpConnection } from "../../bench/http-connection.ts";
import { Call } from "../../grpc/call.ts";
import { producerStream } from "../../grpc/messages.ts";

export interface HealthyTarget {
  readonly http: number;
  readonly grpc: number;
  readonly token: string;
  /** PEM, of the CA of a server with TLS. */
  readonly ca?: string | undefined;
}

export type Probe = "cycle" | "connect" | "stream";

export interface Latencies {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly count: number;
}

const base = "/v1/codeq/tasks";
const restMs = 5;

export class HealthyClient {
  readonly #target: HealthyTarget;
  #kept: HttpConnection;
  readonly #stream: Call;

  private constructor(target: HealthyTarget, kept: HttpConnection, stream: Call) {
    this.#target = target;
    this.#kept = kept;
    this.#stream = stream;
  }

  static async open(target: HealthyTarget): Promise<HealthyClient> {
    const { http, grpc, ca } = target;
    const kept = await HttpConnection.open(http, ca);
    const security = ca === undefined ? undefined : credentials.createSsl(Buffer.from(ca));
    const stream = new Call(producerStream, `127.0.0.1:${grpc}`, security);
    const { helloAck } = await stream.ask({ hello: { token: target.token } });
    if (helloAck === undefined) throw new Error("the Hello was refused");
    return new HealthyClient(target, kept, stream);
  }

  /** Works for this many rounds, or for as long as told; throws when anything fails. */
  async work(until: {
    readonly rounds?: number;
    readonly ms?: number;
  }): Promise<Readonly<Record<Probe, Latencies>>> {
    const { rounds = Number.POSITIVE_INFINITY, ms = Number.POSITIVE_INFINITY } = until;
    const endMs = performance.now() + ms;
    const times: Record<Probe, number[]> = { cycle: [], connect: [], stream: [] };
    for (let round = 0; round < rounds && performance.now() < endMs; round += 1) {
      for (const probe of ["cycle", "connect", "stream"] as const) {
        const startedMs = performance.now();
        await this.#probes[probe]();
        times[probe].push(performance.now() - startedMs);
        await new Promise<void>((resolve) => setTimeout(() => resolve(), restMs));
      }
    }
    return {
      cycle: latenciesOf(times.cycle),
      connect: latenciesOf(times.connect),
      stream: latenciesOf(times.stream),
    };
  }

  /** One round of one kind. */
  once(probe: Probe): Promise<void> {
    return this.#probes[probe]();
  }

  close(): void {
    this.#kept.close();
    this.#stream.close();
  }

  #connect(): Promise<HttpConnection> {
    return HttpConnection.open(this.#target.http, this.#target.ca);
  }

  readonly #probes: Readonly<Record<Probe, () => Promise<void>>> = {
    cycle: async () => {
      // A server may close a connection that is idle; every client opens another one then.
      if (!this.#kept.isOpen) this.#kept = await this.#connect();
      const kept = this.#kept;
      const created = await kept.post(base, '{"command":"healthy","payload":{"n":1}}');
      expect(created.status, 202, created.body);
      const claimed = await kept.post(`${base}/claim`, '{"commands":["healthy"]}');
      expect(claimed.status, 200, claimed.body);
      const [, id] = /"id":"([^"]+)"/.exec(claimed.body) ?? [];
      const done = await kept.post(`${base}/${id}/result`, '{"status":"COMPLETED","result":{}}');
      expect(done.status, 200, done.body);
    },
    connect: async () => {
      const fresh = await this.#connect();
      const answer = await fresh.post(`${base}/claim`, '{"commands":["nothing"]}');
      fresh.close();
      expect(answer.status, 204, answer.body);
    },
    stream: async () => {
      const reply = await this.#stream.ask({ create: { command: "streamed", payload: "{}" } });
      if (reply["createAck"] === undefined) throw new Error(JSON.stringify(reply));
    },
  };
}

function expect(status: number, wanted: number, text: string): void {
  if (status !== wanted) throw new Error(`expected ${wanted}, got ${status} ${text}`);
}

function latenciesOf(times: readonly number[]): Latencies {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50Ms: at(0.5), p99Ms: at(0.99), count: sorted.length };
}
