/** A handler of the Fetch API for Node's own server, and for the frameworks on top of it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FetchHandler } from "./serve.ts";

/** What Express, Fastify and Node's own server call; the third argument is the body, where it was read before. */
export type NodeHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  body?: unknown,
) => Promise<void>;

/** A notification is much shorter. */
const bodyBytesMax = 256 * 1024;

/**
 * Turns the handler of `serve` into one for Express and for Node's own server. Mount it before middleware that
 * parses bodies: the signature belongs to the text as it was sent.
 *
 * ```ts
 * app.post("/wake", nodeHandler(serve(client, [greeter], { secret, maxDuration: "60s" })));
 * ```
 */
export function nodeHandler(handle: FetchHandler): NodeHandler {
  return async (incoming, outgoing, body) => {
    const text = typeof body === "string" ? body : await textOf(incoming);
    const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    );
    const { method = "GET" } = incoming;
    const isBodiless = method === "GET" || method === "HEAD";
    const request = new Request("http://function.invalid/", {
      method,
      headers,
      ...(isBodiless ? {} : { body: text }),
    });
    const response = await handle(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(await response.text());
  };
}

async function textOf(incoming: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes <= bodyBytesMax) pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}
