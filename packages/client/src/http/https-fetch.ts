/** `fetch` over TLS with certificates of one's own. */
import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { TlsOptions } from "../grpc/http2-connection.ts";

const connectionsMax = 64;
/** Answers that cannot have a body. */
const bodiless = new Set([101, 204, 205, 304]);

/**
 * What this package uses of `fetch`, with certificates of one's own, which Node's has no place for. Undefined where
 * there are none.
 */
export function httpsFetch(url: URL, tls: TlsOptions): typeof fetch | undefined {
  if (url.protocol !== "https:" || Object.keys(tls).length === 0) return undefined;
  const agent = new Agent({ ...tls, keepAlive: true, maxSockets: connectionsMax });
  return (input, init = {}) =>
    new Promise((resolve, reject) => {
      const { method = "GET", headers, body, signal } = init;
      const sent = request(
        new URL(String(input)),
        {
          agent,
          method,
          headers: Object.fromEntries(new Headers(headers)),
          ...(signal ? { signal } : {}),
        },
        (incoming) => {
          const { statusCode: status = 0, headersDistinct } = incoming;
          const pairs = Object.entries(headersDistinct).flatMap(([name, values = []]) =>
            values.map((value): [string, string] => [name, value]),
          );
          const isEmpty = bodiless.has(status);
          if (isEmpty) incoming.resume();
          const stream = isEmpty ? null : (Readable.toWeb(incoming) as ReadableStream<Uint8Array>);
          resolve(new Response(stream, { status, headers: pairs }));
        },
      );
      sent.on("error", reject);
      if (body instanceof ReadableStream) {
        pipeline(Readable.fromWeb(body as never), sent).catch(reject);
      } else sent.end(typeof body === "string" ? body : undefined);
    });
}
