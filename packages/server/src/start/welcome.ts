/** The text that a person sees after starting the server. */
import { developmentToken as devToken, hasDevelopmentToken } from "../config/auth/choose-auth.ts";
import { exposedAddresses } from "../config/listeners.ts";
import type { Config } from "../config/settings.ts";
import type { Ports } from "./listen.ts";

export function welcome(config: Config, ports: Ports): string {
  const host = hostToName(config.host);
  const url = urlOf(config, ports.port);
  const lines = [
    "",
    `  codeQ is ready       ${url}`,
    ...(config.console ? [`  web console          ${url}/`] : []),
    `  health, metrics      ${url}/healthz  ${url}/metrics`,
    ...streamLines(host, ports),
    `  data, durability     ${dataOf(config)}`,
    ...tlsLines(config),
  ];
  // Tokens from the configuration are secrets; the development token is not one.
  if (config.producerAuth.some(hasDevelopmentToken)) {
    lines.push(
      `  development token    ${devToken}, which allows everything to anyone who can reach ${host}`,
      "",
      "  Try it:",
      `    curl -s ${url}/v1/codeq/tasks -H 'Authorization: Bearer ${devToken}' \\`,
      `      -d '{"command":"hello","payload":{"name":"world"}}'`,
      `    curl -s ${url}/v1/codeq/tasks/claim -H 'Authorization: Bearer ${devToken}' \\`,
      `      -d '{"commands":["hello"],"waitSeconds":5}'`,
    );
  }
  return `${lines.join("\n")}\n\n`;
}

/** Where clients on this machine find the HTTP API. */
export function urlOf(config: Pick<Config, "host" | "tlsCertFile">, port: number): string {
  const scheme = config.tlsCertFile === "" ? "http" : "https";
  return `${scheme}://${hostToName(config.host)}:${port}`;
}

/** As it stands in a URL. */
export function hostToName(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return host.includes(":") ? `[${host}]` : host;
}

function dataOf({ persistenceProvider, dataDir, durability }: Config): string {
  if (persistenceProvider === "memory") return "in memory, lost when the server ends";
  return `${dataDir} (${durability})`;
}

function streamLines(host: string, { workerStreamPort, producerStreamPort }: Ports): string[] {
  const shown = [workerStreamPort, producerStreamPort].filter((port) => port !== undefined);
  if (shown.length === 0) return [];
  return [`  gRPC streams         ${shown.map((port) => `${host}:${port}`).join("  ")}`];
}

function tlsLines(config: Config): string[] {
  if (exposedAddresses(config).length === 0 || config.insecure) return [];
  return ["  *** NO TLS ***       tokens and payloads are not encrypted; see docs/guide/tls.md"];
}
