/** A client without a library, for what no library would send, and for one that does not read. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";

const prefixBytes = 5;

export class RawConnection {
  readonly #session: ClientHttp2Session;

  constructor(port: number) {
    this.#session = connect(`http://127.0.0.1:${port}`);
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

export class RawCall {
  readonly stream: ClientHttp2Stream;
  /** Status and text, as `<number> <text>`; or how the stream was reset. */
  readonly ended: Promise<string>;
  readonly #responded: Promise<void>;

  constructor(stream: ClientHttp2Stream) {
    this.stream = stream;
    stream.on("error", () => {
      // The end says it.
    });
    this.#responded = new Promise((resolve) => stream.once("response", () => resolve()));
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

  responded(): Promise<void> {
    return this.#responded;
  }

  /** Everything from now on is read and thrown away. */
  read(): void {
    this.stream.resume();
  }
}

export function frame(message: Buffer): Buffer {
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
