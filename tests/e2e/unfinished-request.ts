/** A request whose body comes in pieces, or never ends; the server has it before `send` returns. */
import { connect, type Socket } from "node:net";

export class UnfinishedRequest {
  readonly #socket: Socket;
  readonly #rest: string;
  #received = "";
  #onData: () => void = () => {};
  /** Resolves when the connection has ended, however. */
  readonly closed: Promise<void>;

  private constructor(socket: Socket, rest: string) {
    this.#socket = socket;
    this.#rest = rest;
    socket.setEncoding("utf8").on("data", (text) => {
      this.#received += text;
      this.#onData();
    });
    this.closed = new Promise((resolve) => {
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#onData();
        resolve();
      });
    });
  }

  /** Sends everything but the end of the body, and waits until the server asks for the body. */
  static async open(port: number, path: string, body: string): Promise<UnfinishedRequest> {
    const socket = connect(port, "127.0.0.1");
    const half = Math.floor(body.length / 2);
    const request = new UnfinishedRequest(socket, body.slice(half));
    const headers = [
      `POST /v1/codeq${path} HTTP/1.1`,
      "Host: localhost",
      "Authorization: Bearer dev-token",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Expect: 100-continue",
    ];
    socket.write(`${headers.join("\r\n")}\r\n\r\n`);
    await request.#until(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
    request.#received = "";
    socket.write(body.slice(0, half));
    return request;
  }

  /** Sends the end of the body; the status of the answer. */
  async finish(): Promise<number> {
    this.#socket.write(this.#rest);
    const [, status] = await this.#until(/^HTTP\/1\.1 (\d+) /);
    return Number(status);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #until(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      this.#onData = () => {
        const match = pattern.exec(this.#received);
        if (match !== null) resolve(match);
        else if (this.#socket.destroyed) {
          reject(new Error(`the connection was closed after ${JSON.stringify(this.#received)}`));
        }
      };
      this.#onData();
    });
  }
}
