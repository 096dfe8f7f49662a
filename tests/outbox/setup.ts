/** Postgres, a server, and what a worker gets from it. */
import { EventEmitter, once } from "node:events";
import { after, type TestContext } from "node:test";
import type { Client, Handler, Task, TaskContext } from "@codeq/client";
import { type RelayOptions, startRelay } from "../../packages/outbox/src/index.ts";
import type { Relay } from "../../packages/outbox/src/relay.ts";
import { setup as setupServer } from "../client/setup.ts";
import { type PostgresDatabase, PostgresServer } from "./postgres-server.ts";
import { type Mail, sendMail } from "./send-mail.ts";

/** What workers got, in the order in which they got it. */
export class Inbox<Input> {
  readonly got: { readonly input: Input; readonly ctx: TaskContext }[] = [];
  readonly handler: Handler;
  readonly #events = new EventEmitter();

  constructor(type: Task<Input, void>) {
    this.handler = type.handle((input, ctx) => {
      this.got.push({ input, ctx });
      this.#events.emit("got");
    });
  }

  get inputs(): Input[] {
    return this.got.map(({ input }) => input);
  }

  async has(count: number): Promise<void> {
    while (this.got.length < count) await once(this.#events, "got");
  }
}

/** A switch that one side turns and the other side waits for. */
export class Signal<T> {
  readonly #events = new EventEmitter();
  readonly values: T[] = [];

  send(value: T): void {
    this.values.push(value);
    this.#events.emit("sent");
  }

  async is(test: (values: readonly T[]) => boolean): Promise<void> {
    while (!test(this.values)) await once(this.#events, "sent");
  }
}

export interface Setup {
  readonly postgres: PostgresDatabase;
  readonly client: Client;
  readonly url: string;
  readonly inbox: Inbox<Mail>;
  /** Closed when the test is over. */
  relay(options?: Partial<RelayOptions>): Relay;
  transaction: PostgresDatabase["transaction"];
}

let shared: Promise<PostgresServer> | undefined;
after(async () => (await shared)?.dispose());

/** A database of its own in the Postgres of the file. */
export async function newDatabase(): Promise<PostgresDatabase> {
  shared ??= PostgresServer.open();
  return (await shared).newDatabase();
}

export async function setup(t: TestContext): Promise<Setup> {
  const relays: Relay[] = [];
  // First of all: hooks run in this order.
  t.after(() => Promise.all(relays.map((relay) => relay.close())));
  const postgres = await newDatabase();
  const { server, client: newClient } = await setupServer(t);
  const client = newClient();
  const inbox = new Inbox(sendMail);
  client.worker(inbox.handler, { concurrency: 1 });
  return {
    postgres,
    client,
    url: server.url,
    inbox,
    relay: (options = {}) => {
      const relay = startRelay({ client, databaseUrl: postgres.url, ...options });
      relays.push(relay);
      return relay;
    },
    transaction: (run) => postgres.transaction(run),
  };
}
