/** One stream of a client that is built on the official library. */
import assert from "node:assert/strict";
import {
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

/** Far more than any answer takes; only a failing test gets there. */
const patienceMs = 15_000;

export class Call {
  readonly ended: Promise<End>;
  readonly #stream: ClientDuplexStream<Sendable, Reply>;
  readonly #close: () => void;
  readonly #arrived: Reply[] = [];
  #end: End | undefined;
  #wake: () => void = () => {};

  constructor(codec: MethodCodec, address: string) {
    const stream = openStream(codec, address);
    this.#stream = stream.call;
    this.#close = stream.close;
    this.ended = new Promise((resolve) => {
      stream.call.on("status", ({ code, details }) => {
        this.#end = { code: status[code] ?? String(code), details };
        resolve(this.#end);
        this.#wake();
      });
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
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      this.#wake();
    }, patienceMs);
    while (this.#arrived.length === 0 && !isOver) {
      assert.equal(this.#end, undefined, "the stream ended instead of answering");
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    clearTimeout(timer);
    const reply = this.#arrived.shift();
    assert.ok(reply !== undefined, "no reply came");
    return reply;
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

  /** Stops or resumes reading what the server sends. */
  setReading(isReading: boolean): void {
    if (isReading) this.#stream.resume();
    else this.#stream.pause();
  }

  close(): void {
    this.cancel();
    this.#close();
  }
}

function openStream(
  codec: MethodCodec,
  address: string,
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
  const client = new Client(address, credentials.createInsecure(), {
    // A connection of its own for each stream, as processes have them.
    "grpc.use_local_subchannel_pool": 1,
  });
  const open = client["Stream"] as () => ClientDuplexStream<Sendable, Reply>;
  return { call: open.call(client), close: () => client.close() };
}
