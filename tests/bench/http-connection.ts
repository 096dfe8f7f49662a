/**
 * One keep-alive connection that sends a request and reads its reply, and does as little as it can:
 * what the client costs is taken from the server on a small machine.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface Reply {
  readonly status: number;
  readonly body: string;
}

const headEnd = "\r\n\r\n";

export class HttpConnection {
  readonly #socket: Socket;
  readonly #head: string;
  #received = "";
  #resolve: ((reply: Reply) => void) | undefined;
  #reject: ((error: Error) => void) | undefined;

  private constructor(socket: Socket, port: number) {
    this.#socket = socket;
    this.#head =
      ` HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer dev-token\r\n` +
      "Content-Type: application/json\r\nContent-Length: ";
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => this.#take(chunk));
    socket.on("error", (error) => this.#reject?.(error));
    socket.on("close", () => this.#reject?.(new Error("the server closed the connection")));
  }

  /** `ca` is PEM, for a server with TLS. */
  static async open(port: number, ca?: string): Promise<HttpConnection> {
    const at = { port, host: "127.0.0.1" };
    const socket = ca === undefined ? connect(at) : connectTls({ ...at, ca });
    await once(socket, ca === undefined ? "connect" : "secureConnect");
    return new HttpConnection(socket, port);
  }

  /** False once the server has closed it. */
  get isOpen(): boolean {
    return this.#socket.writable;
  }

  post(path: string, body: string): Promise<Reply> {
    this.#socket.write(`POST ${path}${this.#head}${body.length}${headEnd}${body}`, "latin1");
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  close(): void {
    this.#reject = undefined;
    this.#socket.destroy();
  }

  #take(chunk: string): void {
    this.#received = this.#received === "" ? chunk : this.#received + chunk;
    const end = this.#received.indexOf(headEnd);
    if (end < 0) return;
    const head = this.#received.slice(0, end).toLowerCase();
    const lengthAt = head.indexOf("content-length: ");
    const length = lengthAt < 0 ? 0 : Number.parseInt(head.slice(lengthAt + 16), 10);
    const bodyAt = end + headEnd.length;
    if (this.#received.length < bodyAt + length) return;
    const reply = {
      status: Number(head.slice(9, 12)),
      body: this.#received.slice(bodyAt, bodyAt + length),
    };
    this.#received = this.#received.slice(bodyAt + length);
    this.#resolve?.(reply);
  }
}
