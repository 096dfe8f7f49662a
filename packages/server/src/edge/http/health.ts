/**
 * Pages for probes and scrapers. They need no token and reveal nothing about tasks. Names of commands are
 * shown only to callers on this machine, to operators and to callers with the token for metrics.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isLoopback } from "../../config/listeners.ts";
import { type Config, shownDurability } from "../../config/settings.ts";
import type { Broker } from "../../core/broker/broker.ts";
import type { Clock } from "../../core/clock.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { largestMetrics, metricsContentType } from "../../telemetry/metrics.ts";
import { hideCommands } from "../../telemetry/scrape.ts";
import { type Authenticator, bearerToken } from "../access/authenticator.ts";
import { fingerprintOf } from "../access/token-provider.ts";
import { addressOf } from "../connections.ts";
import type { Page, PageCaller, ShownPage } from "./http-server.ts";

const jsonType = "application/json; charset=utf-8";

/**
 * `/healthz` fails when the storage has failed, so that the process is restarted. `/readyz` fails whenever writes
 * are refused, for example while the disk is full, when a restart would not help.
 */
export function healthPages(parts: {
  broker: Broker;
  authenticator: Authenticator;
  config: Config;
  scrape: () => MaybePromise<string>;
  endpoints: Endpoints;
  clock: Clock;
}): Page[] {
  const { broker, config, endpoints } = parts;
  const shared = new SharedMetrics(parts);
  const page = (status: number, text: string): ShownPage => ({
    status,
    type: jsonType,
    body: JSON.stringify({
      status: text,
      storage: broker.state,
      ...(broker.shards.length === 0 ? {} : { shards: broker.shards }),
      durability: shownDurability(config),
      ...found(endpoints),
    }),
  });
  return [
    {
      path: "/healthz",
      show: () => (broker.state === "failed" ? page(503, "failed") : page(200, "ok")),
    },
    {
      path: "/readyz",
      show: () => (broker.state === "open" ? page(200, "ok") : page(503, "unavailable")),
    },
    {
      path: "/metrics",
      show: async (caller) => {
        if (await mayKnowCommands(parts, caller)) {
          return { status: 200, type: metricsContentType, body: await shared.current() };
        }
        if (!config.metricsPublic) return metricsRefused;
        return { status: 200, type: metricsContentType, body: await shared.page() };
      },
    },
  ];
}

const metricsRefused: ShownPage = {
  status: 401,
  type: "text/plain",
  body: "metrics need a token: set metricsToken, or read them on the machine of the server",
};

const sharedMsMax = 5000;

/**
 * Making the page takes time for each queue. Callers of one turn of the event loop share a page, and unknown callers share
 * one for a while.
 */
class SharedMetrics {
  readonly #scrape: () => MaybePromise<string>;
  readonly #clock: Clock;
  #current: Promise<Buffer> | undefined;
  #page: Promise<Buffer> | undefined;
  #madeMs = 0;

  constructor({ scrape, clock }: { scrape: () => MaybePromise<string>; clock: Clock }) {
    this.#scrape = scrape;
    this.#clock = clock;
  }

  current(): Promise<Buffer> {
    this.#current ??= new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
      this.#current = undefined;
      return Buffer.from(await this.#scrape());
    });
    return this.#current;
  }

  page(): Promise<Buffer> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#page === undefined || nowMs - this.#madeMs >= sharedMsMax) {
      this.#madeMs = nowMs;
      this.#page = this.#make();
    }
    return this.#page;
  }

  async #make(): Promise<Buffer> {
    try {
      return Buffer.from(hideCommands(await this.#scrape(), largestMetrics));
    } catch (error) {
      this.#page = undefined;
      throw error;
    }
  }
}

async function mayKnowCommands(
  { authenticator, config }: { authenticator: Authenticator; config: Config },
  { authorization, isOnThisMachine }: PageCaller,
): Promise<boolean> {
  if (isOnThisMachine) return true;
  const token = bearerToken(authorization);
  if (!token.ok) return false;
  const { metricsToken } = config;
  // Hashes are compared, so that the duration reveals nothing about the token.
  const isToken = fingerprintOf(token.value) === fingerprintOf(metricsToken);
  if (metricsToken !== "" && isToken) return true;
  const identity = await authenticator.authenticate("operator", token.value);
  return identity.ok && identity.value.isOperator;
}

export interface PageRequest {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

export function pageCallerOf({ headers, socket }: PageRequest): PageCaller {
  const isForwarded = "x-forwarded-for" in headers || "forwarded" in headers;
  const isOnThisMachine = !isForwarded && isLoopback(addressOf(socket.remoteAddress ?? ""));
  return { authorization: headers.authorization, isOnThisMachine };
}

/** The stream ports, for clients that only know the HTTP address. */
function found({ instance, workerStreamPort, producerStreamPort }: Endpoints): object {
  if (workerStreamPort === undefined && producerStreamPort === undefined) return {};
  return { instance, streams: { worker: workerStreamPort, producer: producerStreamPort } };
}

/**
 * How a client that knows the address of the HTTP API finds the streams, and how it verifies that they
 * belong to the same server. The ports are set once they are open.
 */
export interface Endpoints {
  /** Different after every start. */
  readonly instance: string;
  /** The port of the HTTP API. */
  port: number | undefined;
  /** Undefined when the listener is off. */
  workerStreamPort: number | undefined;
  producerStreamPort: number | undefined;
}

export function newEndpoints(instance: string): Endpoints {
  return { instance, port: undefined, workerStreamPort: undefined, producerStreamPort: undefined };
}
