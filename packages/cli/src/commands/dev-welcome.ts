/** The text that `dev` prints when it is ready: addresses, and commands to paste. */
import { developmentToken } from "@codeq/server/command-line";
import { type Config, hasDevelopmentToken, hostToName, urlOf } from "@codeq/server/config";
import type { LogLine } from "../local/read-log-lines.ts";
import type { Style } from "../terminal/style.ts";

export interface Ready {
  readonly url: string;
  /** The address of the web console; absent when it is turned off. */
  readonly console?: string;
  /** Absent when the configuration has tokens of its own, which are secrets. */
  readonly token?: string;
  readonly streams: readonly string[];
  readonly dataDir: string;
  readonly durability: string;
}

export function devReady(
  { dataDir, config }: { dataDir: string; config: Config },
  { fields }: LogLine,
): Ready {
  const host = hostToName(config.host);
  const ports = [fields["workerStreamPort"], fields["producerStreamPort"]];
  const isDevelopment = config.producerAuth.some(hasDevelopmentToken);
  const url = urlOf(config, Number(fields["port"]));
  return {
    url,
    ...(config.console ? { console: `${url}/` } : {}),
    ...(isDevelopment ? { token: developmentToken } : {}),
    streams: ports.filter((port) => port !== undefined).map((port) => `${host}:${port}`),
    dataDir,
    durability: String(fields["durability"]),
  };
}

const defaultPort = ":8080";

export function welcomeLines(ready: Ready, program: string, style: Style): string[] {
  const { url, console: consoleUrl, token, streams, dataDir, durability } = ready;
  const label = (text: string): string => style.dim(text.padEnd(12));
  const memory = dataDir === "" ? "in memory" : `${dataDir} (${durability})`;
  return [
    "",
    `  ${style.bold("codeQ is ready")}  ${style.cyan(url)}`,
    "",
    ...(consoleUrl === undefined ? [] : [`  ${label("console")}${consoleUrl}`]),
    `  ${label("token")}${token ?? "a token of your configuration"}`,
    ...(streams.length === 0 ? [] : [`  ${label("gRPC")}${streams.join("  ")}`]),
    `  ${label("data")}${memory}; ${program} dev --fresh deletes the data`,
    `  ${label("health")}${url}/healthz  ${url}/metrics`,
    "",
    "  In another terminal:",
    ...snippets(ready, program).map((line) => `    ${line}`),
    "",
    style.dim("  Events are shown below. Press Ctrl-C to stop the server."),
    "",
  ];
}

/** Lines that work as they stand, also when the server is not where commands look for it. */
function snippets({ url, token }: Ready, program: string): string[] {
  const isDefault = url.endsWith(defaultPort);
  return [
    ...(isDefault ? [] : [`export CODEQ_BASE_URL=${url}`]),
    ...(token === undefined ? ["export CODEQ_TOKEN=<one of your tokens>"] : []),
    `${program} work hello -- cat`,
    `${program} enqueue hello '{"name":"world"}' --wait`,
    `${program} top`,
    `curl ${url}/v1/codeq/tasks -H 'Authorization: Bearer ${token ?? "<token>"}' \\`,
    `  -d '{"command":"hello","payload":{"name":"curl"}}'`,
  ];
}
