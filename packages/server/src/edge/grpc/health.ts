/**
 * grpc.health.v1: whether the server, and each of its services, accepts work. The empty name stands for the
 * whole server.
 */
import { decodeMessage, health, type WireRead } from "@codeq/protocol/wire";
import type { Clock } from "../../core/clock.ts";
import type { GrpcHandler, GrpcMethods } from "./grpc-server.ts";
import type { GrpcStream } from "./grpc-stream.ts";

export const healthService = "grpc.health.v1.Health";

/** Watchers need no token, so their number is limited. */
const watchersMax = 4096;
const statuses = health.healthCheckResponseServingStatus;

export class Health {
  readonly #serving: Map<string, boolean>;
  readonly #watchers = new Map<GrpcStream, string>();
  readonly methods: GrpcMethods;

  /** No service is serving until `set` is called. */
  constructor(services: readonly string[], clock: Clock) {
    this.#serving = new Map(["", ...services].map((service) => [service, false]));
    this.methods = new Map<string, GrpcHandler>([
      [
        `/${healthService}/Check`,
        withOneRequest(clock, health.readHealthCheckRequest, this.#check),
      ],
      [
        `/${healthService}/Watch`,
        withOneRequest(clock, health.readHealthCheckRequest, this.#watch),
      ],
    ]);
  }

  /** Sets the server and all services. */
  setAll(isServing: boolean): void {
    for (const service of this.#serving.keys()) this.set(service, isServing);
  }

  set(service: string, isServing: boolean): void {
    if (this.#serving.get(service) === isServing) return;
    this.#serving.set(service, isServing);
    for (const [stream, watched] of this.#watchers) {
      if (watched === service) this.#sendStatus(stream, service);
    }
  }

  readonly #check = ({ service }: health.HealthCheckRequest, stream: GrpcStream): void => {
    if (!this.#serving.has(service)) {
      stream.end("NOT_FOUND", "unknown service");
      return;
    }
    this.#sendStatus(stream, service);
    stream.end("OK");
  };

  readonly #watch = ({ service }: health.HealthCheckRequest, stream: GrpcStream): void => {
    if (this.#watchers.size >= watchersMax) {
      stream.end("RESOURCE_EXHAUSTED", "too many are watching");
      return;
    }
    this.#watchers.set(stream, service);
    stream.onClosed(() => this.#watchers.delete(stream));
    stream.onGoingAway(() => stream.end("UNAVAILABLE", "the server is shutting down"));
    this.#sendStatus(stream, service);
  };

  #sendStatus(stream: GrpcStream, service: string): void {
    stream.sendMessage(health.writeHealthCheckResponse, { status: this.#statusOf(service) });
  }

  #statusOf(service: string): number {
    const isServing = this.#serving.get(service);
    if (isServing === undefined) return statuses.SERVICE_UNKNOWN;
    return isServing ? statuses.SERVING : statuses.NOT_SERVING;
  }
}

const requestMsMax = 10_000;

/**
 * A method with one request. `run` is called with the request once the client has finished; it sends the
 * answers and ends the call. These methods need no token, so they wait for the request only for a short time.
 */
function withOneRequest<T>(
  clock: Clock,
  read: WireRead<T>,
  run: (request: T, stream: GrpcStream) => void,
): GrpcHandler {
  return (stream) => {
    let request: { readonly message: T } | undefined;
    const cancel = clock.after(requestMsMax, () =>
      stream.end("DEADLINE_EXCEEDED", "no request in time"),
    );
    stream.onClosed(cancel);
    stream.onMessage((bytes) => {
      if (request === undefined) request = { message: decodeMessage(read, bytes) };
      else stream.end("INTERNAL", "more than one request message");
    });
    stream.onHalfClose(() => {
      cancel();
      if (request === undefined) stream.end("INTERNAL", "the request message is missing");
      else run(request.message, stream);
    });
  };
}
