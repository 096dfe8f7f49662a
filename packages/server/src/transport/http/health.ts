/** Pages for probes and scrapers; they need no token and tell nothing about tasks. */

import type { Config } from "../../config/settings.ts";
import type { Store } from "../../store/store.ts";
import { type Metrics, metricsContentType } from "../../telemetry/metrics.ts";
import type { Endpoints } from "../endpoints.ts";
import type { Page } from "./http-server.ts";

const jsonType = "application/json; charset=utf-8";

/**
 * `/healthz` asks for a restart when the storage has failed. `/readyz` asks for no traffic whenever
 * writes are refused, which a full disk does without a restart helping.
 */
export function healthPages(parts: {
  store: Store;
  config: Config;
  metrics: Metrics;
  endpoints: Endpoints;
}): Page[] {
  const { store, config, metrics, endpoints } = parts;
  const { durability } = config;
  const page = (status: number, text: string): ReturnType<Page["show"]> => ({
    status,
    type: jsonType,
    body: JSON.stringify({ status: text, storage: store.state, durability, ...found(endpoints) }),
  });
  return [
    {
      path: "/healthz",
      show: () => (store.state === "failed" ? page(503, "failed") : page(200, "ok")),
    },
    {
      path: "/readyz",
      show: () => (store.state === "open" ? page(200, "ok") : page(503, "unavailable")),
    },
    {
      path: "/metrics",
      show: () => ({ status: 200, type: metricsContentType, body: metrics.render() }),
    },
  ];
}

/** Where the streams are, for clients that only know this address. */
function found({ instance, workerStreamPort, producerStreamPort }: Endpoints): object {
  if (workerStreamPort === undefined && producerStreamPort === undefined) return {};
  return { instance, streams: { worker: workerStreamPort, producer: producerStreamPort } };
}
