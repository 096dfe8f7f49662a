/**
 * One gRPC call on a connection of its own. Messages of a turn leave in one write; what arrives is
 * decoded where it lies.
 */
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import {
  decodeMessage,
  FrameReader,
  SendQueue,
  SendTurn,
  type WireRead,
  type WireWrite,
} from "@codeq/protocol/wire";
import { CodeqError, messageOf } from "../codeq-error.ts";
import type { Conversation, ConversationEnd, ConversationListener } from "../conversation.ts";
import { clientVersion } from "../version.ts";
import { endOfCall, endOfStrangeAnswer } from "./end-of-call.ts";

/** The method that is called, and how its messages become bytes. */
export interface StreamMethod<Event, Reply> {
  readonly path: string;
  readonly write: WireWrite<Event>;
  readonly read: WireRead<Reply>;
}

/** More than the server ever sends in one message. */
const replyBytesMax = 16 * 1024 * 1024;
/** The most that the server takes in one message. */
export const eventBytesMax: number = 4 * 1024 * 1024;
const unsentBytesHigh = 1024 * 1024;
const turn = new SendTurn((run) => void setImmediate(run));

export class GrpcConversation<Event, Reply> implements Conversation<Event> {
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  readonly #method: StreamMethod<Event, Reply>;
  readonly #listener: ConversationListener<Reply>;
  readonly #frames: FrameReader = new FrameReader({
    messageBytesMax: replyBytesMax,
    encoding: undefined,
  });
  readonly #queue: SendQueue;
  #isFull = false;
  #isOver = false;
  #end: ConversationEnd | undefined;

  constructor(
    session: ClientHttp2Session,
    method: StreamMethod<Event, Reply>,
    listener: ConversationListener<Reply>,
  ) {
    this.#session = session;
    this.#method = method;
    this.#listener = listener;
    const stream = session.request({
      ":method": "POST",
      ":path": method.path,
      "content-type": "application/grpc",
      te: "trailers",
      "user-agent": `codeq-client/${clientVersion}`,
    });
    this.#stream = stream;
    this.#queue = new SendQueue({
      turn,
      sink: stream,
      messageBytesMax: eventBytesMax,
      onFirst: () => {},
      onSent: () => this.#sent(),
    });
    stream.on("response", (headers) => {
      this.#end ??= endOfStrangeAnswer(headers) ?? endOfCall(headers);
    });
    stream.on("data", (chunk: Buffer) => this.#received(chunk));
    stream.on("trailers", (trailers) => {
      this.#end ??= endOfCall(trailers);
    });
    stream.on("error", (error) => this.#broke(error));
    stream.once("close", () => this.#over());
    session.on("error", (error) => this.#broke(error));
    session.once("close", () => this.#over());
  }

  send(event: Event): boolean {
    if (this.#isOver || this.#stream.destroyed) return false;
    const bytes = this.#queue.add(this.#method.write, event);
    if (bytes > eventBytesMax) throw new Error(`an event of ${bytes} bytes was about to be sent`);
    if (this.#queue.pendingBytes <= unsentBytesHigh) return true;
    this.#isFull = true;
    return false;
  }

  flush(): void {
    if (!this.#stream.destroyed) this.#queue.flush();
  }

  finish(): void {
    this.#queue.finish(() => this.#stream.end());
  }

  cut(): void {
    this.#isOver = true;
    this.#queue.drop();
    this.#stream.destroy();
    this.#session.destroy();
  }

  keepAwake(isOn: boolean): void {
    if (this.#session.destroyed) return;
    if (isOn) this.#session.ref();
    else this.#session.unref();
  }

  /** The other end does not answer any more. */
  fail(message: string): void {
    this.#broke(new Error(message));
    this.#over();
  }

  #received(chunk: Buffer): void {
    this.#frames.push(chunk);
    while (!this.#isOver) {
      const bytes = this.#frames.next();
      if (bytes === undefined) break;
      const reply = this.#decode(bytes);
      if (reply === undefined) return;
      this.#listener.reply(reply);
    }
    const { fault } = this.#frames;
    if (fault !== undefined) this.fail(fault.message);
  }

  #decode(bytes: Buffer): Reply | undefined {
    try {
      return decodeMessage(this.#method.read, bytes);
    } catch (error) {
      this.fail(`a message cannot be read: ${messageOf(error)}`);
      return undefined;
    }
  }

  #sent(): void {
    if (!this.#isFull || this.#isOver) return;
    if (this.#queue.pendingBytes > unsentBytesHigh / 2) return;
    this.#isFull = false;
    this.#listener.drained();
  }

  #broke(cause: unknown): void {
    const text = `the connection broke: ${messageOf(cause)}`;
    this.#end ??= { how: "lost", error: new CodeqError("unavailable", text, { cause }) };
  }

  #over(): void {
    if (this.#isOver) return;
    this.cut();
    const error = new CodeqError("unavailable", "the server closed the connection");
    this.#listener.ended(this.#end ?? { how: "lost", error });
  }
}
