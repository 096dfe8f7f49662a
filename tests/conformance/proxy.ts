/** Stands between the clients of a scenario and its server, and treats their connections as the scenario says. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export const proxyVerbs = ["cut", "hold", "release", "swallow", "refuse", "accept"] as const;
export type ProxyVerb = (typeof proxyVerbs)[number];

interface Link {
  readonly client: Socket;
  readonly server: Socket;
}

export class FaultyProxy {
  readonly #listener: Server = createServer((client) => this.#accept(client));
  readonly #links = new Set<Link>();
  #isHolding = false;
  #isSwallowing = false;
  #isRefusing = false;
  /** Where connections lead; may change while the proxy runs. */
  targetPort: number;

  private constructor(targetPort: number) {
    this.targetPort = targetPort;
  }

  static async open(targetPort: number): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(targetPort);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  do(verb: ProxyVerb): void {
    switch (verb) {
      case "cut":
        this.#isSwallowing = false;
        this.#cutAll();
        return;
      case "hold":
      case "release":
        this.#isHolding = verb === "hold";
        for (const { client, server } of this.#links) this.#holdOrNot(client, server);
        return;
      case "swallow":
        this.#isSwallowing = true;
        return;
      case "refuse":
        this.#isRefusing = true;
        this.#cutAll();
        return;
      case "accept":
        this.#isRefusing = false;
        return;
    }
  }

  close(): void {
    // A connection may be accepted after this.
    this.#isRefusing = true;
    this.#listener.close();
    this.#cutAll();
  }

  #accept(client: Socket): void {
    if (this.#isRefusing) {
      // A client that has ended its connection by itself is of no interest.
      client.on("error", () => {});
      client.destroy();
      return;
    }
    const server = connect(this.targetPort, "127.0.0.1");
    const link = { client, server };
    this.#links.add(link);
    client.on("data", (bytes) => void server.write(bytes));
    server.on("data", (bytes) => {
      if (!this.#isSwallowing) client.write(bytes);
    });
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.setNoDelay(true);
      from.on("end", () => to.end());
      // However a connection ends, it ends on both sides.
      from.on("error", () => to.destroy());
      from.on("close", () => {
        to.destroy();
        this.#links.delete(link);
      });
    }
    this.#holdOrNot(client, server);
  }

  #holdOrNot(...sockets: readonly Socket[]): void {
    for (const socket of sockets) {
      if (this.#isHolding) socket.pause();
      else socket.resume();
    }
  }

  #cutAll(): void {
    for (const { client, server } of this.#links) {
      client.destroy();
      server.destroy();
    }
    this.#links.clear();
  }
}
