/**
 * The transports to a server: its streams over gRPC, or the same messages as requests over HTTP. The client asks
 * for the ports of the streams at the HTTP address, and uses a stream only if the same server answers on it, so
 * that it never talks to another server that has the port on the same machine.
 */
import { CodeqError } from "../codeq-error.ts";
import { openGrpc, type StreamMethod } from "../grpc/grpc-session.ts";
import type { TlsOptions } from "../grpc/http2-connection.ts";
import { failureOf, HttpApi } from "../http/http-api.ts";
import { httpProducer } from "../http/http-producer.ts";
import { httpWorker } from "../http/http-worker.ts";
import { httpsFetch } from "../http/https-fetch.ts";
import { type OpenProducerSession, producerMethod } from "../producer/producer.ts";
import type { Runtime } from "../runtime.ts";
import { type OpenWorkerSession, workerMethod } from "../worker/worker.ts";
import { Failover } from "./failover.ts";
import { urlDefault, urlsOf } from "./server-address.ts";
import type { OpenOptions, Session, SessionListener } from "./session.ts";

export interface Transports {
  readonly producer: OpenProducerSession;
  /** Each worker has its own transport. */
  readonly worker: () => OpenWorkerSession;
  /** Requests that have no stream. */
  readonly api: Pick<HttpApi, "ask" | "follow" | "download">;
}

interface TransportsOptions {
  readonly url?: string | readonly string[] | undefined;
  readonly transport?: "auto" | "streams" | "http" | undefined;
  readonly streams?: string | undefined;
  readonly tls?: TlsOptions | undefined;
}

const transports: readonly string[] = ["auto", "streams", "http"];

export function openTransports(options: TransportsOptions, runtime: Runtime): Transports {
  const urls = urlsOf(options.url ?? urlDefault);
  const { tls = {}, transport = "auto" } = options;
  if (!transports.includes(transport)) {
    const text = `invalid transport ${JSON.stringify(transport)}: one of ${transports.join(", ")}`;
    throw new CodeqError("invalid_option", text);
  }
  const { streams } = options;
  if (streams !== undefined) checkAddress(streams);
  const { clock } = runtime;
  const known = urls.map((url) => {
    const fetch = runtime.fetch ?? httpsFetch(url, tls);
    return { url, api: new HttpApi({ url, servers: urls, clock, fetch }) };
  });
  const servers = new Failover<KnownServer>(known, failureOf);
  const shared = { servers, tls, transport, streams, runtime };
  const producer = new Transport({
    ...shared,
    kind: "producer",
    method: producerMethod,
    http: httpProducer,
  });
  return {
    api: {
      ask: (request) => servers.ask(request, ({ api }) => api.ask(request)),
      download: (request) => servers.ask(request, ({ api }) => api.download(request)),
      follow: (request) => servers.follow(request, ({ api }) => api.follow(request)),
    },
    producer: (how, listener) => producer.open(how, listener),
    worker: () => {
      const transport = new Transport({
        ...shared,
        kind: "worker",
        method: workerMethod,
        http: httpWorker,
      });
      return (how, listener) => transport.open(how, listener);
    },
  };
}

interface KnownServer {
  readonly url: URL;
  readonly api: HttpApi;
}

interface TransportParts<Event, Reply> {
  readonly kind: "producer" | "worker";
  readonly servers: Failover<KnownServer>;
  readonly tls: TlsOptions;
  readonly transport: "auto" | "streams" | "http";
  readonly streams: string | undefined;
  readonly method: StreamMethod<Event, Reply>;
  readonly http: (
    api: HttpApi,
    options: OpenOptions,
    listener: SessionListener<Reply>,
  ) => Session<Event>;
  readonly runtime: Runtime;
}

interface Target {
  readonly address: string;
  /** Undefined when the address was given and any server at this address is accepted. */
  readonly instance: string | undefined;
}

type HelloReply = { readonly case: unknown; readonly value?: unknown };

class Transport<Event, Reply extends HelloReply> {
  readonly #parts: TransportParts<Event, Reply>;
  /** The transport of the session before. */
  #last: "streams" | "http" | undefined;
  /** An address at which another server answered. */
  #otherServer: string | undefined;

  constructor(parts: TransportParts<Event, Reply>) {
    this.#parts = parts;
  }

  /** A server that did not answer, or ended the session, is passed over next time. */
  async open(options: OpenOptions, listener: SessionListener<Reply>): Promise<Session<Event>> {
    const { servers } = this.#parts;
    const server = servers.current;
    const watched: SessionListener<Reply> = {
      ...listener,
      ended: (end) => {
        if (end.how !== "refused") servers.pass(server);
        listener.ended(end);
      },
    };
    try {
      return await this.#openAt(server, options, watched);
    } catch (error) {
      servers.pass(server);
      throw error;
    }
  }

  async #openAt(
    server: KnownServer,
    options: OpenOptions,
    listener: SessionListener<Reply>,
  ): Promise<Session<Event>> {
    const { transport } = this.#parts;
    const overHttp = (): Session<Event> => {
      this.#last = "http";
      return this.#parts.http(server.api, options, listener);
    };
    const only = options.stay && this.#last !== undefined ? this.#last : transport;
    if (only === "http") return overHttp();
    const target = await this.#target(server);
    if (target === undefined || target.address === this.#otherServer) {
      if (only === "auto") return overHttp();
      throw noStreams();
    }
    try {
      return await this.#overStreams(server.url, target, listener);
    } catch (error) {
      if (only === "auto") return overHttp();
      throw error;
    }
  }

  async #overStreams(
    url: URL,
    target: Target,
    listener: SessionListener<Reply>,
  ): Promise<Session<Event>> {
    const { tls, method, runtime } = this.#parts;
    const authority = `${url.protocol}//${target.address}`;
    const checked = this.#checked(target, listener);
    const session = await openGrpc({ authority, tls, method, runtime }, checked);
    this.#last = "streams";
    return session;
  }

  /** Ends a session with a server that is not the one at the HTTP address. */
  #checked(target: Target, listener: SessionListener<Reply>): SessionListener<Reply> {
    const { address, instance } = target;
    if (instance === undefined) return listener;
    return {
      ...listener,
      reply: (reply) => {
        const answering = reply.case === "helloAck" ? instanceOf(reply.value) : instance;
        if (answering === instance) return listener.reply(reply);
        this.#otherServer = address;
        const text = `another server answers on ${address}`;
        listener.ended({ how: "lost", error: new CodeqError("unavailable", text) });
      },
    };
  }

  /** Undefined when the server has no streams. */
  async #target({ api, url }: KnownServer): Promise<Target | undefined> {
    const { streams, kind } = this.#parts;
    if (streams !== undefined) return { address: streams, instance: undefined };
    const health = await healthOf(api);
    const port =
      health?.streams?.[kind] ?? health?.streams?.[kind === "worker" ? "producer" : "worker"];
    if (port === undefined || health?.instance === undefined) return undefined;
    return { address: `${url.hostname}:${port}`, instance: health.instance };
  }
}

/** Undefined when something in between does not let the page through. */
async function healthOf(api: HttpApi): ReturnType<HttpApi["health"]> {
  try {
    return await api.health();
  } catch (error) {
    if (error instanceof CodeqError && !error.retryable) return undefined;
    throw error;
  }
}

function instanceOf(value: unknown): unknown {
  return (value as { readonly instance?: unknown }).instance;
}

function noStreams(): CodeqError {
  const text = "the server has no streams that can be reached";
  return new CodeqError("unavailable", `${text}; give their address, or use the transport "http"`);
}

function checkAddress(address: string): void {
  if (/^(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}$/.test(address)) return;
  const shown = JSON.stringify(address);
  throw new CodeqError("invalid_option", `invalid streams ${shown}: give host:port`);
}
