/** Fronts in this thread, with real sockets: all of them but the threads. */
import { Agent, request } from "node:http";
import { systemClock } from "../../packages/server/src/clock.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import type { composeHttp } from "../../packages/server/src/start/compose.ts";
import type { Fronts } from "../../packages/server/src/start/listen.ts";
import type { Logger } from "../../packages/server/src/telemetry/logger.ts";
import { Connections } from "../../packages/server/src/transport/connections.ts";
import { FrontCounts } from "../../packages/server/src/transport/fronts/front-counts.ts";
import { FrontDesk } from "../../packages/server/src/transport/fronts/front-desk.ts";
import { FrontDoor } from "../../packages/server/src/transport/fronts/front-door.ts";
import { routes } from "../../packages/server/src/transport/http/http-server.ts";
import { PlainRoutes } from "../../packages/server/src/transport/http/plain-request.ts";
import type { ServerTls } from "../../packages/server/src/transport/tls/server-tls.ts";

/** With CODEQ_TEST_FRONTS=2 the same tests run on a server with two fronts. */
export const testFronts: number = Number(process.env["CODEQ_TEST_FRONTS"] ?? 0);

export interface LocalFrontsParts {
  readonly config: Config;
  readonly http: ReturnType<typeof composeHttp>;
  readonly logger: Logger;
  readonly tls?: ServerTls | undefined;
}

export class LocalFronts implements Fronts {
  readonly counts: FrontCounts;
  readonly doors: readonly FrontDoor[];
  readonly #connections: readonly Connections[];

  constructor({ config, http, logger, tls }: LocalFrontsParts) {
    const counts = new FrontCounts({ fronts: config.fronts });
    this.counts = counts;
    const max = config.connectionsMax;
    this.#connections = Array.from(
      { length: config.fronts },
      (_, front) =>
        new Connections({ max, listener: "http", logger, crowd: counts.crowdOf(front) }),
    );
    const defer = (run: () => void): void => void setImmediate(run);
    this.doors = this.#connections.map((connections) => {
      const door: FrontDoor = new FrontDoor({
        limits: config,
        bodyBytesMax: config.bodyBytesMax,
        routes,
        connections,
        tls,
        clock: systemClock,
        send: (words) => defer(() => desk.take(structuredClone(words))),
        defer,
      });
      const desk = new FrontDesk({
        server: http.server,
        answers: http.answers,
        routes: new PlainRoutes(routes),
        send: (words) => defer(() => door.take(structuredClone(words))),
        defer,
      });
      return door;
    });
  }

  async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<number> {
    let found = port;
    for (const door of this.doors) found = await door.listen({ host, port: found });
    return found;
  }

  async close(): Promise<void> {
    await Promise.all(this.doors.map((door) => door.close()));
  }

  /** Ends all connections, whatever they are doing. */
  cut(): void {
    for (const connections of this.#connections) connections.destroyAll();
  }
}

export interface Sent {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: string | Buffer | undefined;
}

interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
}

/** Fronts on a port, and a client of them. */
export interface OpenDoor {
  send(sent: Sent): Promise<Received>;
  /** Cuts what is open. */
  close(): Promise<void>;
}

export async function openDoor(parts: LocalFrontsParts): Promise<OpenDoor> {
  const fronts = new LocalFronts(parts);
  const { http } = parts;
  await http.ready();
  http.server.emit("listening");
  const port = await fronts.listen({ host: "127.0.0.1", port: 0 });
  const agent = new Agent({ keepAlive: true });
  let isClosed = false;
  return {
    send: ({ method, url, headers, payload }) =>
      new Promise((resolve, reject) => {
        const length = payload && { "content-length": String(Buffer.byteLength(payload)) };
        const options = { host: "127.0.0.1", port, method, path: url, agent };
        const sent = request({ ...options, headers: { ...length, ...headers } }, (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (part: string) => {
            text += part;
          });
          response
            .on("error", (error) => isClosed || reject(error))
            .on("end", () => {
              const { statusCode: status = 0, headers: received } = response;
              resolve({ status, headers: received as Received["headers"], text });
            });
        });
        // A server that crashed answers nobody.
        sent.on("error", (error) => isClosed || reject(error));
        sent.end(payload);
      }),
    close: async () => {
      isClosed = true;
      agent.destroy();
      const closed = fronts.close();
      fronts.cut();
      http.server.close();
      await closed;
    },
  };
}
