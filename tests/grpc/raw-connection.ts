/** A client without a library, for what no library would send, and for one that does not read. */
import assert from "node:assert/strict";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";

const prefixBytes = 5;
/** What a test looks for may be cut by the end of a chunk. */
const recentBytes = 1024;
const sessionMemoryMb = 200;

export class RawConnection {
  readonly #session: ClientHttp2Session;

  constructor(port: number) {
    // What it sends faster than the server reads waits here.
    this.#session = connect(`http://127.0.0.1:${port}`, { maxSessionMemory: sessionMemoryMb });
    this.#session.on("error", () => {
      // Tests break connections on purpose.
    });
  }

  /** A call that reads nothing until `read` is called. */
  call(path: string, headers: Readonly<Record<string, string>> = {}): RawCall {
    const stream = this.#session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    return new RawCall(stream);
  }

  /** The connection breaks, without a word to the other end. */
  close(): void {
    this.#session.destroy();
  }
}

class RawCall {
  readonly stream: ClientHttp2Stream;
  /** Status and text, as `<number> <text>`; or how the stream was reset. */
  readonly ended: Promise<string>;

  constructor(stream: ClientHttp2Stream) {
    this.stream = stream;
    stream.on("error", () => {
      // The end says it.
    });
    this.ended = new Promise((resolve) => {
      let end: string | undefined;
      const note = (headers: Readonly<Record<string, unknown>>): void => {
        if (headers["grpc-status"] === undefined) return;
        end = `${headers["grpc-status"]} ${headers["grpc-message"] ?? ""}`.trim();
      };
      stream.on("response", note);
      stream.on("trailers", note);
      stream.once("close", () => resolve(end ?? `reset ${stream.rstCode}`));
    });
  }

  send(...messages: readonly Buffer[]): void {
    this.stream.write(Buffer.concat(messages.map(frame)));
  }

  /** Reads until the condition holds of what came last and of the number of bytes so far. */
  async readUntil(holds: (recent: Buffer, total: number) => boolean): Promise<Buffer> {
    let recent: Buffer = Buffer.alloc(0);
    let total = 0;
    for await (const chunk of this.stream as AsyncIterable<Buffer>) {
      total += chunk.length;
      recent = Buffer.concat([recent.subarray(-recentBytes), chunk]);
      if (holds(recent, total)) return recent;
    }
    assert.fail(`the stream ended after ${total} bytes`);
  }
}

export function frame(message: Buffer): Buffer {
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
