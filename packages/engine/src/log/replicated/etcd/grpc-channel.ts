/**
 * gRPC calls to one server over one HTTP/2 connection, which is made when it is needed. Nothing is retried here:
 * a call that fails may have been carried out, and only its caller knows what a repeat would do.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import { FrameReader, WireWriter } from "@codeq/protocol/wire";
import type { EngineClock } from "../../../engine-options.ts";

export interface GrpcTls {
  readonly ca: string | Buffer;
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

export interface GrpcChannelOptions {
  /** `http://host:port`, or `https://` for TLS. */
  readonly url: string;
  readonly tls: GrpcTls | undefined;
  readonly clock: EngineClock;
}

/** A method, and how its messages become bytes. */
export interface GrpcMethod<Request, Response> {
  readonly path: string;
  readonly write: (request: Request, writer: WireWriter) => void;
  readonly read: (bytes: Buffer) => Response;
}

export interface StreamListener<Response> {
  message(response: Response): void;
  ended(error: GrpcError): void;
}

export const grpcStatus = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unavailable: 14,
} as const;

export class GrpcError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "GrpcError";
    this.status = status;
  }
}

const connectMsMax = 1000;
/** Servers accept one ping in a second. */
const pingEveryMs = 1500;
const windowBytes = 16 * 1024 * 1024;
const responseBytesMax = 64 * 1024 * 1024;
const prefixBytes = 5;

export class GrpcChannel {
  readonly url: string;
  readonly #options: GrpcChannelOptions;
  #tls: GrpcTls | undefined;
  #session: ClientHttp2Session | undefined;
  #calls = 0;

  constructor(options: GrpcChannelOptions) {
    this.#options = options;
    this.#tls = options.tls;
    this.url = options.url;
  }

  /** For connections from now on. */
  useTls(tls: GrpcTls): void {
    this.#tls = tls;
  }

  call<Request, Response>(
    method: GrpcMethod<Request, Response>,
    request: Request,
    timeoutMs: number,
  ): Promise<Response> {
    return new Promise((resolve, reject) => {
      let response: Response | undefined;
      const stream = this.#open(method, request, {
        timeoutMs,
        message: (message) => {
          response = message;
        },
        ended: (error) => {
          cancel();
          if (error.status === grpcStatus.ok && response !== undefined) resolve(response);
          else reject(error);
        },
      });
      const cancel = this.#options.clock.after(timeoutMs, () => {
        reject(new GrpcError(grpcStatus.deadlineExceeded, `no answer in ${timeoutMs} ms`));
        stream.cancel();
      });
      stream.end();
    });
  }

  /** A call that stays open until it is cancelled or ends. */
  stream<Request, Response>(
    method: GrpcMethod<Request, Response>,
    request: Request,
    listener: StreamListener<Response>,
  ): () => void {
    return this.#open(method, request, listener).cancel;
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  #open<Request, Response>(
    method: GrpcMethod<Request, Response>,
    request: Request,
    listener: StreamListener<Response> & { readonly timeoutMs?: number },
  ): { readonly cancel: () => void; readonly end: () => void } {
    const { timeoutMs } = listener;
    let end = new GrpcError(grpcStatus.unavailable, `the connection to ${this.url} was lost`);
    let isOver = false;
    const over = (isReported: boolean): void => {
      if (isOver) return;
      isOver = true;
      this.#calls -= 1;
      if (isReported) listener.ended(end);
    };
    this.#calls += 1;
    const session = this.#connected();
    const stream = session.request({
      ":method": "POST",
      ":path": method.path,
      "content-type": "application/grpc",
      te: "trailers",
      // A server that has lost the others answers at once instead of waiting for them.
      hasleader: "true",
      ...(timeoutMs === undefined ? {} : { "grpc-timeout": `${timeoutMs}m` }),
    });
    const frames = new FrameReader({ messageBytesMax: responseBytesMax, encoding: undefined });
    const noteEnd = (headers: Readonly<Record<string, unknown>>): void => {
      const status = headers["grpc-status"];
      if (status === undefined) return;
      end = new GrpcError(Number(status), String(headers["grpc-message"] ?? ""));
    };
    stream.on("response", noteEnd);
    stream.on("trailers", noteEnd);
    stream.on("data", (chunk: Buffer) => {
      frames.push(chunk);
      for (let next = frames.next(); next !== undefined; next = frames.next()) {
        if (!isOver) listener.message(method.read(next));
      }
    });
    stream.on("error", (error) => {
      end = new GrpcError(grpcStatus.unavailable, `${this.url}: ${reasonOf(error, session)}`);
    });
    stream.once("close", () => over(true));
    stream.write(framed(method, request));
    return {
      cancel: () => {
        over(false);
        cancelStream(stream);
      },
      end: () => void stream.end(),
    };
  }

  #connected(): ClientHttp2Session {
    const current = this.#session;
    if (current !== undefined && !current.closed && !current.destroyed) return current;
    const { clock, url } = this.#options;
    const tls = this.#tls;
    const session = connect(url, {
      ...tls,
      ...(tls === undefined ? {} : { minVersion: "TLSv1.3" as const }),
      settings: { enablePush: false, initialWindowSize: windowBytes },
    });
    this.#session = session;
    const cancelConnect = clock.after(connectMsMax, () => {
      session.destroy(new Error(`${url} does not answer`));
    });
    session.once("connect", () => {
      cancelConnect();
      // The connection may have been lost before this is called.
      if (!session.destroyed) session.setLocalWindowSize(windowBytes);
    });
    session.on("error", (error) => failures.set(session, error.message));
    session.once("close", cancelConnect);
    this.#watch(session);
    return session;
  }

  /** Ends a connection whose other end is gone. Servers do not accept pings without a call. */
  #watch(session: ClientHttp2Session): void {
    let isAnswered = true;
    const look = (): void => {
      if (session.destroyed || session.closed) return;
      if (!isAnswered) {
        session.destroy(new Error(`${this.url} does not answer`));
        return;
      }
      if (this.#calls > 0 && !session.connecting) {
        isAnswered = false;
        session.ping(() => {
          isAnswered = true;
        });
      }
      cancel = this.#options.clock.after(pingEveryMs, look);
    };
    let cancel = this.#options.clock.after(pingEveryMs, look);
    session.once("close", () => cancel());
  }
}

/** Why connections ended; the errors of their calls do not say it. */
const failures: WeakMap<ClientHttp2Session, string> = new WeakMap();

function reasonOf(error: Error, session: ClientHttp2Session): string {
  return failures.get(session) ?? error.message;
}

function cancelStream(stream: ClientHttp2Stream): void {
  if (!stream.destroyed) stream.close(constants.NGHTTP2_CANCEL);
}

function framed<Request>(method: GrpcMethod<Request, unknown>, request: Request): Buffer {
  const writer = new WireWriter();
  const at = writer.reserve(prefixBytes);
  method.write(request, writer);
  writer.patchPrefix(at, 0, writer.length - prefixBytes);
  return writer.view();
}
