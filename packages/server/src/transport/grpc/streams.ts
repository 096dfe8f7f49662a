/**
 * The gRPC side of the server: both streams, health and reflection, on one listener. Every listener
 * answers for everything, so it does not matter which of the two ports a client was given.
 */
import type { Engine } from "@codeq/engine";
import { createGrpcServer, type GrpcMethods, type GrpcServer, grpcLimits } from "./grpc-server.ts";
import { Health, healthService } from "./health.ts";
import { producerProtocol } from "./producer-session.ts";
import { reflectionMethods } from "./reflection.ts";
import { type SessionParts, serveStream } from "./session.ts";
import type { StreamCounts } from "./stream-counts.ts";
import { workerProtocol } from "./worker-session.ts";

const producerService = "producerpb.ProducerStream";
const workerService = "workerpb.WorkerStream";
const keepalive = { intervalMs: 30_000, timeoutMs: 20_000 };

export interface StreamsParts extends SessionParts {
  readonly engine: Engine;
}

export interface Streams {
  readonly counts: Readonly<Record<"producer" | "worker", StreamCounts>>;
  /** Over all listeners; those that were refused since the start. */
  readonly connections: () => { readonly open: number; readonly refused: number };
  /** One more listener for the same calls. */
  server(): GrpcServer;
  /** Tells health checks that the storage takes writes, or that it does not. */
  setServing(isServing: boolean): void;
  /** The same for good: a storage that recovers while the server stops changes nothing. */
  stopServing(): void;
}

export function createStreams(parts: StreamsParts): Streams {
  const services = [producerService, workerService];
  const health = new Health(services);
  health.setAll(parts.engine.state === "open");
  const producer = producerProtocol(parts);
  const worker = workerProtocol(parts);
  const methods: GrpcMethods = new Map([
    [`/${producerService}/Stream`, (stream) => serveStream(stream, parts, producer)],
    [`/${workerService}/Stream`, (stream) => serveStream(stream, parts, worker)],
    ...health.methods,
    ...reflectionMethods([...services, healthService]),
  ]);
  const { logger, clock } = parts;
  const servers: GrpcServer[] = [];
  let isStopping = false;
  return {
    counts: { producer: producer.counts, worker: worker.counts },
    connections: () => ({
      open: sum(servers.map(({ connections }) => connections)),
      refused: sum(servers.map(({ connectionsRefused }) => connectionsRefused)),
    }),
    server: () => {
      const server = createGrpcServer({ methods, limits: grpcLimits, keepalive, logger, clock });
      servers.push(server);
      return server;
    },
    setServing: (isServing) => health.setAll(isServing && !isStopping),
    stopServing: () => {
      isStopping = true;
      health.setAll(false);
    },
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
