/** Opens every port that is configured, and closes them together. */
import type { FastifyInstance } from "fastify";
import type { Config } from "./config/settings.ts";
import type { GrpcServer } from "./transport/grpc/grpc-server.ts";
import type { Streams } from "./transport/grpc/streams.ts";

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

export async function listenAll(
  parts: { readonly http: FastifyInstance; readonly streams: Streams },
  config: Config,
): Promise<Listening> {
  const { http, streams } = parts;
  const servers: GrpcServer[] = [];
  const open = async (address: string): Promise<number | undefined> => {
    if (address === "off") return undefined;
    const server = streams.server();
    servers.push(server);
    const colon = address.lastIndexOf(":");
    const host = address.slice(0, colon).replace(/^\[|\]$/g, "") || config.host;
    return (await server.listen({ host, port: Number(address.slice(colon + 1)) })).port;
  };
  const workerStreamPort = await open(config.workerStreamAddr);
  const producerStreamPort = await open(config.producerStreamAddr);
  await http.listen({ port: config.port, host: config.host });
  const address = http.server.address();
  const port = typeof address === "object" && address !== null ? address.port : config.port;
  return {
    ports: { port, workerStreamPort, producerStreamPort },
    close: async (graceMs) => {
      await Promise.all([http.close(), ...servers.map((server) => server.close(graceMs))]);
    },
  };
}
