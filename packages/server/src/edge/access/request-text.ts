/** Asks an identity server over HTTP. Redirects are not followed, because they lead to another server. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";

export interface TextRequest {
  readonly url: string;
  /** Sent with POST; without a form the request is a GET. */
  readonly form?: URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface TextReply {
  readonly status: number;
  readonly text: string;
}

/** Rejects if there is no answer or if the answer is too large. */
export type RequestText = (request: TextRequest, signal: AbortSignal) => Promise<TextReply>;

const bytesMax = 1024 * 1024;

export const requestText: RequestText = ({ url, form, headers = {} }, signal) =>
  new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? requestHttps : requestHttp;
    const type = form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" };
    const outgoing = send(url, {
      method: form === undefined ? "GET" : "POST",
      signal,
      agent: false,
      headers: { accept: "application/json", ...type, ...headers },
    });
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      response.on("data", (piece: Buffer) => {
        bytes += piece.length;
        pieces.push(piece);
        if (bytes <= bytesMax) return;
        reject(new Error(`the answer is larger than ${bytesMax} bytes`));
        outgoing.destroy();
      });
      response.on("error", reject);
      const { statusCode: status = 0 } = response;
      response.on("end", () => resolve({ status, text: Buffer.concat(pieces).toString("utf8") }));
    });
    outgoing.end(form?.toString());
  });
