/**
 * What a stream port answers to requests that are not gRPC: the pages for probes and scrapers, with the access rule
 * of the HTTP port, and the port of the HTTP API for everything else. HTTP/1.1 is recognised by its first bytes, so that
 * `curl` gets an answer that it can read. Such a connection has one request and ends soon, and there are few of them.
 */
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import {
  constants,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Server, Socket } from "node:net";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { type Endpoints, type PageRequest, pageCallerOf } from "../http/health.ts";
import type { Page, ShownPage } from "../http/http-server.ts";
import { skipChunks, stopParsing } from "../http/node-server.ts";

export interface HttpPagesParts {
  readonly pages: readonly Page[];
  readonly endpoints: Pick<Endpoints, "port">;
  readonly logger: Logger;
}

/** From the connection to the end of the answer; also for the first bytes of other connections. */
const connectionMs = 10_000;
/** Connections with HTTP/1, and requests of HTTP/2. Beyond it the oldest is ended: a client that reads its answer is done at once. */
const openMax = 128;
const preface = "PRI";
const misdirected = 421;

export class HttpPages {
  readonly #parts: HttpPagesParts;
  readonly #clock: Clock;
  readonly #http1: HttpServer;
  /** How each is ended; the oldest first. */
  readonly #open: Set<() => void> = new Set();

  constructor(parts: HttpPagesParts, clock: Clock) {
    this.#parts = parts;
    this.#clock = clock;
    const answer: RequestListener = (request, response) => this.#answer(request, response);
    // Without the second listener, Node answers expectations at once, as many as there are in a packet.
    this.#http1 = createServer(answer).on("checkExpectation", answer);
  }

  /** Takes connections with HTTP/1 from the server. */
  watch(server: Http2Server | Http2SecureServer, isSecure: boolean): void {
    // With TLS, the handshake says which protocol the client speaks.
    if (isSecure) server.on("unknownProtocol", (socket: Socket) => this.#take(socket));
    else this.#recognise(server);
  }

  /** Answers a request of HTTP/2 that is not a call; false when no page has its path. */
  answerStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
    const path = headers[":path"] ?? "";
    const socket = stream.session?.socket;
    const isPage = headers[":method"] === "GET" && this.#pageOf(path) !== undefined;
    if (!isPage || socket === undefined) return false;
    stream.on("error", () => {});
    this.#limit(stream, () => {
      stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      stream.destroy();
    });
    void this.#show(path, { headers, socket }).then(({ status, type, body }) => {
      if (stream.destroyed) return;
      stream.respond({ ":status": status, "content-type": type });
      stream.end(body);
    });
    return true;
  }

  #recognise(server: Server): void {
    const takers = server.listeners("connection");
    server.removeAllListeners("connection");
    server.on("connection", (socket: Socket) => {
      const ignore = (): void => {};
      const cancel = this.#clock.after(connectionMs, () => socket.destroy());
      socket.once("close", cancel);
      socket.on("error", ignore);
      socket.once("readable", () => {
        cancel();
        socket.off("close", cancel);
        socket.off("error", ignore);
        const bytes = socket.read() as Buffer | null;
        if (bytes === null) {
          socket.destroy();
          return;
        }
        socket.unshift(bytes);
        if (isHttp1(bytes)) this.#take(socket);
        else for (const take of takers) take.call(server, socket);
      });
    });
  }

  #take(socket: Socket): void {
    this.#limit(socket, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    this.#http1.emit("connection", socket);
    skipChunks(socket, () => true);
  }

  /** Ends it when it takes too long, or when there are too many. */
  #limit(each: Socket | ServerHttp2Stream, end: () => void): void {
    const cancel = this.#clock.after(connectionMs, end);
    this.#open.add(end);
    each.once("close", () => {
      cancel();
      this.#open.delete(end);
    });
    if (this.#open.size <= openMax) return;
    const [oldest] = this.#open;
    if (oldest === undefined) return;
    this.#open.delete(oldest);
    oldest();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    response.shouldKeepAlive = false;
    // Hundreds of requests in a packet would delay others.
    stopParsing(request.socket);
    const isRead = request.method === "GET" || request.method === "HEAD";
    const path = isRead ? (request.url ?? "") : "";
    void this.#show(path, request).then(({ status, type, body }) => {
      const length = Buffer.byteLength(body);
      response.writeHead(status, { "content-type": type, "content-length": length }).end(body);
    });
  }

  #pageOf(path: string): Page | undefined {
    const [name] = path.split("?");
    return this.#parts.pages.find((page) => page.path === name);
  }

  async #show(path: string, request: PageRequest): Promise<ShownPage> {
    const { port } = this.#parts.endpoints;
    const where = port === undefined ? "" : ` on port ${port}`;
    const text = `this port is for gRPC streams; send HTTP requests to the HTTP API${where}\n`;
    try {
      const page = await this.#pageOf(path)?.show(pageCallerOf(request));
      return page ?? { status: misdirected, type: "text/plain", body: text };
    } catch (error) {
      this.#parts.logger.error("page failed", { path, error: String(error) });
      return { status: 500, type: "text/plain", body: "internal error\n" };
    }
  }
}

/** Methods are capital letters; HTTP/2 begins with a method that does not exist. */
function isHttp1(bytes: Buffer): boolean {
  const start = bytes.toString("latin1", 0, preface.length);
  return /^[A-Z]/.test(start) && !preface.startsWith(start);
}
