/** Requests to a server over a few connections that are kept open, as real clients send them. */
import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http";

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface TaskJson {
  readonly id: string;
  readonly payload: string;
  readonly status: string;
  readonly lastKnownLocation: string;
  readonly attempts?: number;
  readonly leaseToken?: number;
  readonly error?: string;
}

const base = "/v1/codeq";

export class ApiClient {
  readonly #port: number;
  readonly #agent: Agent;

  constructor(port: number, connections = 32) {
    this.#port = port;
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections, scheduling: "fifo" });
  }

  get(path: string): Promise<Reply> {
    return this.#send("GET", path, undefined);
  }

  /** `body` is sent as it is when it is text. */
  post(path: string, body: unknown): Promise<Reply> {
    return this.#send("POST", path, typeof body === "string" ? body : JSON.stringify(body));
  }

  /** A page outside the API, such as `/healthz`. */
  page(path: string): Promise<Reply> {
    return this.#exchange({ method: "GET", path }, undefined);
  }

  create(body: unknown): Promise<Reply> {
    return this.post("/tasks", body);
  }

  async task(id: string): Promise<TaskJson | undefined> {
    const reply = await this.get(`/tasks/${id}`);
    return reply.status === 200 ? (JSON.parse(reply.text) as TaskJson) : undefined;
  }

  close(): void {
    this.#agent.destroy();
  }

  #send(method: "GET" | "POST", path: string, body: string | undefined): Promise<Reply> {
    const headers = { authorization: "Bearer dev-token", "content-type": "application/json" };
    return this.#exchange({ method, path: base + path, headers }, body);
  }

  #exchange(
    call: { method: string; path: string; headers?: OutgoingHttpHeaders },
    body: string | undefined,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const outgoing = request({
        ...call,
        host: "127.0.0.1",
        port: this.#port,
        agent: this.#agent,
      });
      outgoing.on("error", (cause) => {
        reject(new Error(`${call.method} ${call.path}: ${cause.message}`, { cause }));
      });
      outgoing.on("response", (incoming) => {
        let text = "";
        incoming.setEncoding("utf8");
        incoming.on("data", (piece: string) => {
          text += piece;
        });
        incoming.on("error", reject);
        incoming.on("aborted", () => reject(new Error("the answer was cut off")));
        incoming.on("end", () => {
          resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text });
        });
      });
      outgoing.end(body);
    });
  }
}
