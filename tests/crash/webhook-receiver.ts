/**
 * A receiver of webhooks that remembers how it answered every one. The path says how it answers: `/good` takes
 * them, `/late` fails the first time, `/refused` refuses them until they are welcome.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export type WebhookPath = "/good" | "/late" | "/refused";

export class WebhookReceiver implements AsyncDisposable {
  /** Webhooks that `/refused` takes, by task. */
  readonly welcome: Set<string> = new Set();
  /** Called before a request is answered. */
  onRequest: () => void = () => {};
  total = 0;
  readonly #answers: Map<string, number[]> = new Map();
  readonly #server: Server = createServer((request, response) => {
    void textOf(request).then((text) => {
      const { taskId } = JSON.parse(text) as { taskId: string };
      const status = this.#statusFor(request.url as WebhookPath, taskId);
      this.#answers.set(taskId, [...this.answers(taskId), status]);
      this.total += 1;
      this.onRequest();
      response.writeHead(status).end();
    });
  });

  static async start(): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    receiver.#server.listen(0, "127.0.0.1");
    await once(receiver.#server, "listening");
    return receiver;
  }

  /** The statuses that the webhooks of a task were answered with. */
  answers(taskId: string): readonly number[] {
    return this.#answers.get(taskId) ?? [];
  }

  urlOf(path: WebhookPath): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #statusFor(path: WebhookPath, taskId: string): number {
    if (path === "/late") return this.answers(taskId).length === 0 ? 500 : 200;
    return path === "/good" || this.welcome.has(taskId) ? 200 : 400;
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return text;
}
