/**
 * Streams of a client that does what it likes: it can stop reading, send half a message, and go away
 * at any moment and in any way.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import {
  decodeMessage,
  encodeMessage,
  FrameReader,
  producer,
  type WireRead,
  type WireWrite,
  worker,
} from "@codeq/protocol/wire";

export interface Wire<Event, Reply> {
  readonly path: string;
  readonly write: WireWrite<Event>;
  readonly read: WireRead<Reply>;
}

export const producerWire: Wire<producer.ProducerEvent, producer.ServerEvent> = {
  path: "/producerpb.ProducerStream/Stream",
  write: producer.writeProducerEvent,
  read: producer.readServerEvent,
};

export const workerWire: Wire<worker.WorkerEvent, worker.ServerEvent> = {
  path: "/workerpb.WorkerStream/Stream",
  write: worker.writeWorkerEvent,
  read: worker.readServerEvent,
};

export type ProducerStream = ClientStream<producer.ProducerEvent, producer.ServerEvent>;
export type WorkerStream = ClientStream<worker.WorkerEvent, worker.ServerEvent>;

const messageBytesMax = 4 * 1024 * 1024;
const prefixBytes = 5;

export class ClientConnection {
  readonly #session: ClientHttp2Session;

  /** The window says how much the server may send on a stream that is not read from. */
  constructor(port: number, windowBytes = 65_535) {
    const settings = { initialWindowSize: windowBytes };
    this.#session = connect(`http://127.0.0.1:${port}`, { settings });
    this.#session.on("error", () => {
      // Connections are broken on purpose; a stream that should not have ended says so itself.
    });
  }

  open<Event, Reply>(wire: Wire<Event, Reply>): ClientStream<Event, Reply> {
    const stream = this.#session.request({
      ":method": "POST",
      ":path": wire.path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    return new ClientStream(stream, wire);
  }

  /** Takes no new streams and ends with the last one. */
  close(): void {
    if (!this.#session.destroyed) this.#session.close();
  }

  /** At once, with all its streams. */
  break(): void {
    this.#session.destroy();
  }
}

export class ClientStream<Event, Reply> {
  onReply: (reply: Reply) => void = () => {};
  /** With the status, or with how the stream was reset. */
  onEnd: (end: string) => void = () => {};
  readonly #stream: ClientHttp2Stream;
  readonly #wire: Wire<Event, Reply>;
  readonly #frames = new FrameReader({ messageBytesMax, encoding: undefined });
  #isOver = false;

  constructor(stream: ClientHttp2Stream, wire: Wire<Event, Reply>) {
    this.#stream = stream;
    this.#wire = wire;
    let end: string | undefined;
    const note = (headers: Readonly<Record<string, unknown>>): void => {
      const status = headers["grpc-status"];
      if (status !== undefined) end = `${status} ${headers["grpc-message"] ?? ""}`.trim();
    };
    stream.on("response", note);
    stream.on("trailers", note);
    stream.on("error", () => {
      // The end says it.
    });
    stream.once("close", () => {
      this.#isOver = true;
      this.onEnd(end ?? `reset ${stream.rstCode}`);
    });
    stream.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  /** Nothing can be sent any more. */
  get #isMute(): boolean {
    return this.#isOver || this.#stream.writableEnded;
  }

  send(event: Event): void {
    if (!this.#isMute) this.#stream.write(this.#frame(event));
  }

  /** The first part of a message whose rest never comes. */
  sendHalf(event: Event, share: number): void {
    const frame = this.#frame(event);
    const length = Math.min(Math.ceil(frame.length * share), frame.length - 1);
    if (!this.#isMute) this.#stream.write(frame.subarray(0, length));
  }

  /** From now on nothing is read; what the server sends waits with the server. */
  stopReading(): void {
    this.#stream.pause();
  }

  read(): void {
    this.#stream.resume();
  }

  halfClose(): void {
    if (!this.#isOver) this.#stream.end();
  }

  cancel(): void {
    if (!this.#isOver) this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  #take(chunk: Buffer): void {
    this.#frames.push(chunk);
    for (let bytes = this.#frames.next(); bytes !== undefined; bytes = this.#frames.next()) {
      this.onReply(decodeMessage(this.#wire.read, bytes));
    }
  }

  #frame(event: Event): Buffer {
    const message = encodeMessage(this.#wire.write, event);
    const frame = Buffer.alloc(prefixBytes + message.length);
    frame.writeUInt32BE(message.length, 1);
    frame.set(message, prefixBytes);
    return frame;
  }
}
