/** One stream of a client that is built on the official library. */
import assert from "node:assert/strict";
import {
  type ChannelCredentials,
  type ClientDuplexStream,
  credentials,
  makeGenericClientConstructor,
  status,
} from "@grpc/grpc-js";
import type { MethodCodec, Reply, Sendable } from "./messages.ts";

export interface End {
  /** The name of the status. */
  readonly code: string;
  readonly details: string;
}

type StreamCodec = Pick<MethodCodec, "path" | "encode" | "decode">;

/** Far more than any answer takes; only a failing test gets there. */
const patienceMs = 15_000;

export class Call {
  readonly #stream: ClientDuplexStream<Sendable, Reply>;
  readonly #close: () => void;
  readonly #arrived: Reply[] = [];
  #end: End | undefined;
  #wake: () => void = () => {};

  constructor(codec: StreamCodec, address: string, security?: ChannelCredentials) {
    const stream = openStream(codec, address, security);
    this.#stream = stream.call;
    this.#close = stream.close;
    stream.call.on("status", ({ code, details }) => {
      this.#end = { code: status[code] ?? String(code), details };
      this.#wake();
    });
    stream.call.on("error", () => {
      // The status says it too.
    });
    stream.call.on("data", (reply: Reply) => {
      this.#arrived.push(reply);
      this.#wake();
    });
  }

  send(...events: readonly Sendable[]): void {
    for (const event of events) this.#stream.write(event);
  }

  /** The next reply, in the order they came. */
  async next(): Promise<Reply> {
    await this.#until(() => this.#arrived.length > 0 || this.#end !== undefined);
    const reply = this.#arrived.shift();
    const instead = this.#end === undefined ? "no reply came" : "the stream ended without a reply";
    assert.ok(reply !== undefined, `${instead} ${JSON.stringify(this.#end ?? "")}`);
    return reply;
  }

  /** How the stream ended, once it did. */
  get ended(): Promise<End> {
    return this.#until(() => this.#end !== undefined).then(() => {
      assert.ok(this.#end !== undefined, "the stream did not end");
      return this.#end;
    });
  }

  async #until(holds: () => boolean): Promise<void> {
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      this.#wake();
    }, patienceMs);
    while (!holds() && !isOver) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
    clearTimeout(timer);
  }

  async take(count: number): Promise<Reply[]> {
    const replies: Reply[] = [];
    while (replies.length < count) replies.push(await this.next());
    return replies;
  }

  async ask(event: Sendable): Promise<Reply> {
    this.send(event);
    return await this.next();
  }

  /**
   * Fails when anything was sent that was not expected: the answer to a second Hello has to be the
   * next thing that comes.
   */
  async expectSilence(): Promise<void> {
    const { error, ...other } = await this.ask({ hello: { token: "again" } });
    assert.deepEqual(other, {});
    assert.equal(error.message, "already-authenticated");
  }

  /** What has come and was not looked at. */
  get unread(): readonly Reply[] {
    return this.#arrived;
  }

  halfClose(): void {
    this.#stream.end();
  }

  cancel(): void {
    this.#stream.cancel();
  }

  close(): void {
    this.cancel();
    this.#close();
  }
}

function openStream(
  codec: StreamCodec,
  address: string,
  security: ChannelCredentials = credentials.createInsecure(),
): { call: ClientDuplexStream<Sendable, Reply>; close: () => void } {
  const definition = {
    Stream: {
      path: codec.path,
      requestStream: true,
      responseStream: true,
      requestSerialize: codec.encode,
      requestDeserialize: codec.decode,
      responseSerialize: codec.encode,
      responseDeserialize: codec.decode,
    },
  };
  const Client = makeGenericClientConstructor(definition, "Stream");
  const client = new Client(address, security, {
    // A connection of its own for each stream, as processes have them.
    "grpc.use_local_subchannel_pool": 1,
  });
  const open = client["Stream"] as () => ClientDuplexStream<Sendable, Reply>;
  return { call: open.call(client), close: () => client.close() };
}
