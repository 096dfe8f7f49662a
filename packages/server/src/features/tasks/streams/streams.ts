/**
 * The gRPC side of the server: both streams, health and reflection, on one listener. Every listener serves
 * everything, so it does not matter which of the two ports a client uses.
 */

import {
  anonymousConnectionsOf,
  memoryOf,
  unauthenticatedCallsOf,
} from "../../../config/memory.ts";
import type { Config } from "../../../config/settings.ts";
import type { Broker } from "../../../core/broker/broker.ts";
import {
  createGrpcServer,
  type GrpcMethods,
  type GrpcServer,
  grpcLimits,
} from "../../../edge/grpc/grpc-server.ts";
import { Health, healthService } from "../../../edge/grpc/health.ts";
import type { HttpPages } from "../../../edge/grpc/http-pages.ts";
import { reflectionMethods } from "../../../edge/grpc/reflection.ts";
import {
  type StreamCallParts,
  type StreamCounts,
  serveStream,
} from "../../../edge/grpc/stream-call.ts";
import type { ServerTls } from "../../../edge/tls/server-tls.ts";
import { producerProtocol } from "./producer-stream.ts";
import { workerProtocol } from "./worker-stream.ts";

const producerService = "producerpb.ProducerStream";
const workerService = "workerpb.WorkerStream";
const keepalive = { intervalMs: 30_000, timeoutMs: 20_000 };

export interface StreamsParts extends StreamCallParts {
  readonly broker: Broker;
  readonly limits: Pick<
    Config,
    "connectionsMax" | "headerBytesMax" | "streamsPerConnectionMax" | "memoryBytes"
  >;
  readonly tls?: ServerTls | undefined;
  /** Answers requests on the stream ports that are not gRPC. */
  readonly pages: HttpPages;
}

export interface Streams {
  readonly counts: Readonly<Record<"producer" | "worker", StreamCounts>>;
  /** Creates one more listener for the same calls. */
  server(): GrpcServer;
  /** Counts of all listeners. */
  readonly connections: number;
  readonly connectionsGivenUp: number;
  readonly connectionsCut: number;
  /** Handlers by full path, for calls that do not come through a listener. */
  readonly methods: GrpcMethods;
  /** Sets whether health checks report that the storage accepts writes. */
  setServing(isServing: boolean): void;
  /** Reports not serving from now on, also when the storage recovers during the shutdown. */
  stopServing(): void;
}

export function createStreams(parts: StreamsParts): Streams {
  const services = [producerService, workerService];
  const health = new Health(services, parts.clock);
  health.setAll(parts.broker.state === "open");
  const producer = producerProtocol(parts);
  const worker = workerProtocol(parts);
  const methods: GrpcMethods = new Map([
    [`/${producerService}/Stream`, (stream) => serveStream(stream, parts, producer)],
    [`/${workerService}/Stream`, (stream) => serveStream(stream, parts, worker)],
    ...health.methods,
    ...reflectionMethods([...services, healthService]),
  ]);
  const { logger, clock, tls, pages } = parts;
  const { connectionsMax, headerBytesMax, streamsPerConnectionMax } = parts.limits;
  const memoryBytes = memoryOf(parts.limits);
  const limits = {
    ...grpcLimits,
    connectionsMax,
    headerBytesMax,
    streamsPerConnectionMax,
    unauthenticatedCallsMax: unauthenticatedCallsOf(memoryBytes),
    anonymousConnectionsMax: anonymousConnectionsOf(memoryBytes),
  };
  const listeners: GrpcServer[] = [];
  const sumOf = (count: (listener: GrpcServer) => number): number =>
    listeners.reduce((sum, listener) => sum + count(listener), 0);
  let isStopping = false;
  return {
    counts: { producer: producer.counts, worker: worker.counts },
    methods,
    server: () => {
      const listener = createGrpcServer({ methods, limits, keepalive, tls, pages, logger, clock });
      listeners.push(listener);
      return listener;
    },
    get connections() {
      return sumOf((listener) => listener.connections);
    },
    get connectionsGivenUp() {
      return sumOf((listener) => listener.connectionsGivenUp);
    },
    get connectionsCut() {
      return sumOf((listener) => listener.connectionsCut);
    },
    setServing: (isServing) => health.setAll(isServing && !isStopping),
    stopServing: () => {
      isStopping = true;
      health.setAll(false);
    },
  };
}
