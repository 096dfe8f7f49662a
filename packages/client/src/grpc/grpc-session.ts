/**
 * One gRPC call on a connection of its own. Messages of a turn leave in one write; what arrives is
 * decoded where it lies.
 */
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { errors } from "@codeq/protocol";
import {
  decodeMessage,
  FrameReader,
  SendQueue,
  SendTurn,
  type WireRead,
  type WireWrite,
} from "@codeq/protocol/wire";
import { CodeqError, type ErrorCode, messageOf } from "../codeq-error.ts";
import type { Session, SessionEnd, SessionListener } from "../connection/session.ts";
import type { Runtime } from "../runtime.ts";
import { openHttp2, type TlsOptions, watchConnection } from "./http2-connection.ts";

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

class GrpcSession<Event, Reply> implements Session<Event> {
  readonly #http2: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  readonly #method: StreamMethod<Event, Reply>;
  readonly #listener: SessionListener<Reply>;
  readonly #frames: FrameReader = new FrameReader({
    messageBytesMax: replyBytesMax,
    encoding: undefined,
  });
  readonly #queue: SendQueue;
  #isFull = false;
  #isOver = false;
  #end: SessionEnd | undefined;

  constructor(
    http2: ClientHttp2Session,
    method: StreamMethod<Event, Reply>,
    listener: SessionListener<Reply>,
  ) {
    this.#http2 = http2;
    this.#method = method;
    this.#listener = listener;
    const stream = http2.request({
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
      this.#end ??= endOfForeignAnswer(headers) ?? endOfCall(headers);
    });
    stream.on("data", (chunk: Buffer) => this.#received(chunk));
    stream.on("trailers", (trailers) => {
      this.#end ??= endOfCall(trailers);
    });
    stream.on("error", (error) => this.#broke(error));
    stream.once("close", () => this.#over());
    http2.on("error", (error) => this.#broke(error));
    http2.once("close", () => this.#over());
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
    this.#http2.destroy();
  }

  keepAwake(isOn: boolean): void {
    if (this.#http2.destroyed) return;
    if (isOn) this.#http2.ref();
    else this.#http2.unref();
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

interface OpenGrpcOptions<Event, Reply> {
  /** `http://host:port`, or `https://` for TLS. */
  readonly authority: string;
  readonly tls: TlsOptions;
  readonly method: StreamMethod<Event, Reply>;
  readonly runtime: Runtime;
}

/** Rejects with an error when nothing there speaks HTTP/2. */
export async function openGrpc<Event, Reply>(
  { authority, tls, method, runtime }: OpenGrpcOptions<Event, Reply>,
  listener: SessionListener<Reply>,
): Promise<Session<Event>> {
  const { clock } = runtime;
  const http2 = await openHttp2({ authority, tls, clock });
  const session = new GrpcSession(http2, method, listener);
  watchConnection(http2, clock, () => session.fail("the server does not answer"));
  return session;
}

interface StatusRow {
  readonly code: ErrorCode;
  readonly how: SessionEnd["how"];
}

/** By number; what is not here says that something broke on the way. */
const statuses: Readonly<Record<number, StatusRow>> = {
  0: { code: "unavailable", how: "over" },
  3: { code: "invalid_argument", how: "refused" },
  7: { code: "permission_denied", how: "refused" },
  9: { code: "not_codeq", how: "refused" },
  12: { code: "not_codeq", how: "refused" },
  16: { code: "unauthenticated", how: "refused" },
};
const broken: StatusRow = { code: "unavailable", how: "lost" };

/** Texts of the table of errors, as far as they say which row they are from. */
const codesByText: ReadonlyMap<string, ErrorCode> = new Map(
  Object.entries(errors).map(([code, { text }]) => [text, code]),
);
const authPrefix = "auth failed: ";

/** From the trailers of the call, or from its headers when it has nothing else. */
export function endOfCall(trailers: IncomingHttpHeaders): SessionEnd | undefined {
  const status = trailers["grpc-status"];
  if (typeof status !== "string") return undefined;
  const { code, how } = statuses[Number(status)] ?? broken;
  const text = decodedText(String(trailers["grpc-message"] ?? ""));
  const known = codesByText.get(text.startsWith(authPrefix) ? text.slice(authPrefix.length) : text);
  const shown = text === "" ? `the server ended the stream (status ${status})` : text;
  const error = new CodeqError(how === "refused" ? (known ?? code) : code, shown);
  // A caller that cannot be checked for now is not one that is not wanted.
  return { how: how === "refused" && error.retryable ? "lost" : how, error };
}

/** An answer that is not gRPC: a proxy in between, or another server. */
function endOfForeignAnswer(headers: IncomingHttpHeaders): SessionEnd | undefined {
  const status = Number(headers[":status"]);
  const type = String(headers["content-type"] ?? "");
  if (status === 200 && type.startsWith("application/grpc")) return undefined;
  if (status >= 500) {
    const error = new CodeqError("unavailable", `the server answered with status ${status}`);
    return { how: "lost", error };
  }
  const text = `what answers is not a codeQ stream (status ${status}, ${type || "no content type"})`;
  return { how: "refused", error: new CodeqError("not_codeq", text) };
}

function decodedText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The text is not encoded as it should be, and is shown as it came.
    return text;
  }
}

/** The version of this package. Bundled programs have no package.json; a test compares the two. */
export const clientVersion = "0.1.0";
