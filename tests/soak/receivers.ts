/**
 * Where webhooks of the soak go: one receiver that answers, and others that do what receivers should
 * not. Each has a port of its own, as endpoints of different owners have.
 */
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Ledger } from "./ledger.ts";

export const receiverKinds = [
  "good",
  "silent",
  "slow",
  "failing",
  "cutting",
  "redirecting",
] as const;
export type ReceiverKind = (typeof receiverKinds)[number];

const slowMs = 3000;

export class Receivers implements AsyncDisposable {
  /** The tasks of which the good one was told. */
  readonly told: Set<string> = new Set();
  readonly #servers: Map<ReceiverKind, Server> = new Map();
  readonly #ledger: Ledger;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  async listen(): Promise<void> {
    for (const kind of receiverKinds) {
      const server = createServer((request, response) => {
        this.#ledger.count(`webhooks to the ${kind} receiver`);
        this.#answers[kind](request, response);
      });
      // Webhooks that were cut off by their sender are part of the play.
      server.on("clientError", (_error, socket) => socket.destroy());
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      this.#servers.set(kind, server);
    }
  }

  urlOf(kind: ReceiverKind, n: number): string {
    const { port } = (this.#servers.get(kind) as Server).address() as AddressInfo;
    return `http://127.0.0.1:${port}/${n}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const servers = [...this.#servers.values()];
    await Promise.all(
      servers.map((server) => {
        const closed = once(server, "close");
        server.close();
        server.closeAllConnections();
        return closed;
      }),
    );
  }

  readonly #answers: Readonly<Record<ReceiverKind, RequestListener>> = {
    good: (request, response) => {
      let text = "";
      request.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
      });
      request.on("end", () => {
        this.told.add((JSON.parse(text) as { taskId: string }).taskId);
        response.end();
      });
    },
    silent: (request) => void request.resume(),
    slow: (request, response) => {
      request.resume();
      setTimeout(() => response.end(), slowMs).unref();
    },
    failing: (request, response) => {
      request.resume();
      response.writeHead(500).end("no");
    },
    cutting: (request) => void request.socket.destroy(),
    redirecting: (request, response) => {
      request.resume();
      response.writeHead(302, { location: this.urlOf("good", 0) }).end();
    },
  };
}
