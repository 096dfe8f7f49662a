/** Reads an event feed as a client would: server-sent events out of the text that arrives. */
import assert from "node:assert/strict";
import { get, type IncomingMessage } from "node:http";
import { type RunningServer, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape.
export type Told = any;

export class FeedReader {
  readonly #response: IncomingMessage;
  #text = "";
  isOver = false;

  constructor(response: IncomingMessage) {
    this.#response = response;
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      this.#text += text;
    });
    // A feed may be cut off, and a test may leave.
    response.on("error", () => {});
    response.on("close", () => {
      this.isOver = true;
    });
  }

  get status(): number | undefined {
    return this.#response.statusCode;
  }

  get headers(): IncomingMessage["headers"] {
    return this.#response.headers;
  }

  /** Everything as it came. */
  get text(): string {
    return this.#text;
  }

  /** The data of every event so far. */
  get events(): Told[] {
    return this.#text
      .split("\n\n")
      .slice(0, -1)
      .flatMap((block) => {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
        if (data === undefined) return [];
        const event = JSON.parse(data);
        assert.equal(event.event, name);
        return [event];
      });
  }

  get names(): string[] {
    return this.events.map(({ event }) => event);
  }

  async untilEvents(count: number): Promise<Told[]> {
    await until(() => this.events.length >= count);
    return this.events;
  }

  async untilText(part: string): Promise<void> {
    await until(() => this.#text.includes(part));
  }

  async untilOver(): Promise<void> {
    await until(() => this.isOver);
  }

  leave(): void {
    this.#response.destroy();
  }
}

/** Opens a feed and reads on until its first bytes are there, or until it is refused. */
export async function openFeed(
  server: RunningServer,
  query = "",
  caller: Caller = "admin-acme",
): Promise<FeedReader> {
  const feed = new FeedReader(await unreadFeed(server, query, caller));
  if (feed.status === 200) await feed.untilText("\n\n");
  else await feed.untilOver();
  return feed;
}

/** A feed from which nobody reads. */
export async function unreadFeed(
  server: RunningServer,
  query = "",
  caller: Caller = "admin-acme",
): Promise<IncomingMessage> {
  const { app } = server;
  if (!app.server.listening) await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as { port: number };
  const path = `/v1/codeq/admin/events${query}`;
  const headers = { authorization: `Bearer ${caller}` };
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, path, headers, agent: false }, resolve).on("error", reject);
  });
}
