/**
 * A client of the two streams that costs as little as it can on Node's own HTTP/2: what is sent in one
 * turn of the event loop leaves in one write, messages are decoded where they lie, and replies go to
 * a function instead of a promise each. It has no reconnecting, no deadlines and no health checks.
 */
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { connect as connectSocket } from "node:net";
import {
  decodeMessage,
  FrameReader,
  producer,
  SendQueue,
  SendTurn,
  type WireRead,
  type WireWrite,
  worker,
} from "@codeq/protocol/wire";

const messageBytesMax = 4 * 1024 * 1024;
const windowBytes = 8 * 1024 * 1024;

/** What has to be known of a stream to speak on it. */
interface Method<Event, Reply> {
  readonly path: string;
  readonly write: WireWrite<Event>;
  readonly read: WireRead<Reply>;
}

const producerMethod: Method<producer.ProducerEvent, producer.ServerEvent> = {
  path: "/producerpb.ProducerStream/Stream",
  write: producer.writeProducerEvent,
  read: producer.readServerEvent,
};
const workerMethod: Method<worker.WorkerEvent, worker.ServerEvent> = {
  path: "/workerpb.WorkerStream/Stream",
  write: worker.writeWorkerEvent,
  read: worker.readServerEvent,
};

export type ProducerStream = ClientStream<producer.ProducerEvent, producer.ServerEvent>;
export type WorkerStream = ClientStream<worker.WorkerEvent, worker.ServerEvent>;

/** One connection; it carries any number of streams. */
export class StreamConnection {
  readonly #session: ClientHttp2Session;
  readonly #turn = new SendTurn((run) => void setImmediate(run));

  private constructor(session: ClientHttp2Session) {
    this.#session = session;
    session.setLocalWindowSize(windowBytes);
  }

  static async open(port: number): Promise<StreamConnection> {
    const session = connect(`http://127.0.0.1:${port}`, {
      createConnection: () => connectSocket({ host: "127.0.0.1", port, noDelay: true }),
      settings: { enablePush: false, initialWindowSize: windowBytes },
    });
    await once(session, "connect");
    return new StreamConnection(session);
  }

  /** Resolves when the server has accepted the token. */
  async producer(token: string): Promise<ProducerStream> {
    const stream = this.#start(producerMethod);
    await greet(stream, { case: "hello", value: { token } });
    return stream;
  }

  async worker(token: string, workerId: string): Promise<WorkerStream> {
    const stream = this.#start(workerMethod);
    await greet(stream, { case: "hello", value: { token, workerId } });
    return stream;
  }

  #start<Event, Reply>(method: Method<Event, Reply>): ClientStream<Event, Reply> {
    const stream = this.#session.request({
      ":method": "POST",
      ":path": method.path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    return new ClientStream(method, stream, this.#turn);
  }
}

/** The first reply has to be the acknowledgement of the Hello. */
async function greet<Event, Reply extends { readonly case: string | undefined }>(
  stream: ClientStream<Event, Reply>,
  hello: Event,
): Promise<void> {
  const reply = await new Promise<Reply>((resolve, reject) => {
    stream.onReply = resolve;
    stream.onEnd = reject;
    stream.send(hello);
  });
  if (reply.case !== "helloAck") throw new Error(`the Hello was refused: ${JSON.stringify(reply)}`);
  stream.onEnd = fail;
}

/** An end that nobody waits for is an error of the whole program. */
function fail(error: Error): never {
  throw error;
}

export class ClientStream<Event, Reply> {
  readonly #method: Method<Event, Reply>;
  readonly #queue: SendQueue;
  readonly #frames = new FrameReader({ messageBytesMax, encoding: undefined });
  /** Called for each reply in the order of the wire. Bytes in it are views of what was received. */
  onReply: (reply: Reply) => void = () => {};
  onEnd: (error: Error) => void = () => {};

  constructor(method: Method<Event, Reply>, stream: ClientHttp2Stream, turn: SendTurn) {
    this.#method = method;
    const nothing = (): void => {};
    this.#queue = new SendQueue({
      turn,
      sink: stream,
      messageBytesMax,
      onFirst: nothing,
      onSent: nothing,
    });
    stream.on("data", (chunk: Buffer) => this.#take(chunk));
    stream.on("error", (error) => this.onEnd(error));
    let status = "the stream was closed";
    const note = (headers: Readonly<Record<string, unknown>>): void => {
      if (headers["grpc-status"] === undefined) return;
      status = `the server ended the stream: ${headers["grpc-status"]} ${headers["grpc-message"]}`;
    };
    stream.on("response", note);
    stream.on("trailers", note);
    stream.once("close", () => this.onEnd(new Error(status)));
  }

  /** Leaves at the end of this turn, together with everything else that was sent in it. */
  send(event: Event): void {
    this.#queue.add(this.#method.write, event);
  }

  #take(chunk: Buffer): void {
    this.#frames.push(chunk);
    for (;;) {
      const message = this.#frames.next();
      if (message === undefined) break;
      this.onReply(decodeMessage(this.#method.read, message));
    }
    const { fault } = this.#frames;
    if (fault !== undefined) throw new Error(fault.message);
  }
}
