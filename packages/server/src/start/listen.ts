/**
 * Opens every configured port, and closes them together. Ports that cannot be opened are reported all at
 * once, each with its setting.
 */
import type { FastifyInstance } from "fastify";
import { streamAddressOf } from "../config/listeners.ts";
import { flagOf, settingTable } from "../config/setting-table.ts";
import type { Config, SettingName } from "../config/settings.ts";
import type { GrpcServer } from "../edge/grpc/grpc-server.ts";
import type { Endpoints } from "../edge/http/health.ts";
import type { Streams } from "../features/tasks/streams/streams.ts";

export interface Ports {
  readonly port: number;
  /** Undefined when the listener is off. */
  readonly workerStreamPort: number | undefined;
  readonly producerStreamPort: number | undefined;
}

export interface Listening {
  readonly ports: Ports;
  close(graceMs: number): Promise<void>;
}

/** Ports that could not be opened; the message has a line for each and says what to change. */
export class ListenError extends Error {}

export async function listenAll(
  parts: {
    readonly http: FastifyInstance;
    readonly streams: Streams;
    readonly endpoints: Endpoints;
  },
  config: Config,
): Promise<Listening> {
  const { http, streams, endpoints } = parts;
  const servers: GrpcServer[] = [];
  const problems: string[] = [];
  const open = async (
    binding: Binding,
    listen: (at: Binding) => Promise<number>,
  ): Promise<number> => {
    try {
      return await listen(binding);
    } catch (error) {
      problems.push(problemOf(binding, error as NodeJS.ErrnoException));
      return binding.port;
    }
  };
  const openStreams = (key: StreamKey): Promise<number> | undefined => {
    const binding = bindingOf(key, config);
    if (binding === undefined) return undefined;
    const server = streams.server();
    servers.push(server);
    return open(binding, async ({ host, port }) => (await server.listen({ host, port })).port);
  };
  const workerStreamPort = await openStreams("workerStreamAddr");
  const producerStreamPort = await openStreams("producerStreamAddr");
  endpoints.workerStreamPort = workerStreamPort;
  endpoints.producerStreamPort = producerStreamPort;
  const { host } = config;
  const port = await open({ key: "port", host, port: config.port }, async (binding) => {
    await http.listen({ port: binding.port, host });
    const address = http.server.address();
    return typeof address === "object" && address !== null ? address.port : binding.port;
  });
  endpoints.port = port;
  if (problems.length > 0) throw new ListenError(problems.join("\n"));
  return {
    ports: { port, workerStreamPort, producerStreamPort },
    close: async (graceMs) => {
      const grpc = servers.map((server) => server.close(graceMs));
      await Promise.all([http.close(), ...grpc]);
    },
  };
}

type StreamKey = "workerStreamAddr" | "producerStreamAddr";

interface Binding {
  /** What to change when the port is not free. */
  readonly key: SettingName;
  readonly host: string;
  readonly port: number;
}

/** Undefined when the listener is off. */
function bindingOf(key: StreamKey, config: Config): Binding | undefined {
  const address = streamAddressOf(config[key], config.host);
  return address === undefined ? undefined : { key, ...address };
}

const wrongPort: Readonly<Record<string, string>> = {
  EADDRINUSE: "the port is in use by another process",
  EACCES: "this user has no permission to open this port",
};

function problemOf({ key, host, port }: Binding, error: NodeJS.ErrnoException): string {
  const why = wrongPort[error.code ?? ""];
  const shown = host.includes(":") ? `[${host}]` : host;
  const changes: readonly SettingName[] = why === undefined ? [key, "host"] : [key];
  const variables = changes.map((name) => settingTable[name].env?.[0] ?? name).join(" or ");
  const flags = changes.map(flagOf).join(" or ");
  const [what, fix] =
    key === "port"
      ? ["HTTP", "another port, or to 0 for a free port"]
      : ["gRPC streams", "another address, or to off"];
  return (
    `cannot listen on ${shown}:${port} for ${what}: ${why ?? error.message}. ` +
    `Set ${variables} (${flags}) to ${fix}.`
  );
}
