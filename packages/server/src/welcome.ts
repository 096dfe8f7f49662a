/** What a person who has just started the server wants to see. */
import { developmentToken as devToken, hasDevelopmentToken } from "./config/choose-auth.ts";
import type { Config } from "./config/settings.ts";
import type { Ports } from "./listen.ts";

export function welcome(config: Config, ports: Ports): string {
  const host = config.host === "0.0.0.0" || config.host === "::" ? "localhost" : config.host;
  const url = `http://${host}:${ports.port}`;
  const lines = [
    "",
    `  codeQ is ready       ${url}`,
    `  health, metrics      ${url}/healthz  ${url}/metrics`,
    ...streamLines(host, ports),
    `  data, durability     ${config.dataDir} (${config.durability})`,
  ];
  // Tokens from the configuration are secrets; the development token is not one.
  if (config.producerAuth.some(hasDevelopmentToken)) {
    lines.push(
      `  development token    ${devToken}`,
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

function streamLines(host: string, { workerStreamPort, producerStreamPort }: Ports): string[] {
  const shown = [workerStreamPort, producerStreamPort].filter((port) => port !== undefined);
  if (shown.length === 0) return [];
  return [`  gRPC streams         ${shown.map((port) => `${host}:${port}`).join("  ")}`];
}
