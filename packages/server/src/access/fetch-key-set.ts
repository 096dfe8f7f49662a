/**
 * Fetches the text of a key set over HTTP. Redirects are not followed, because keys from elsewhere would be
 * trusted like keys from the configured URL.
 */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";

/** Rejects when the text cannot be had; the reason goes to the log. */
export type FetchKeySet = (url: string, signal: AbortSignal) => Promise<string>;

const bytesMax = 1024 * 1024;

export const fetchKeySet: FetchKeySet = (url, signal) =>
  new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? requestHttps : requestHttp;
    const outgoing = send(url, { signal, agent: false, headers: { accept: "application/json" } });
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      const refuse = (problem: string): void => {
        reject(new Error(problem));
        outgoing.destroy();
      };
      if (response.statusCode !== 200) {
        refuse(`the answer has the status ${response.statusCode}`);
        return;
      }
      const pieces: Buffer[] = [];
      let bytes = 0;
      response.on("data", (piece: Buffer) => {
        bytes += piece.length;
        pieces.push(piece);
        if (bytes > bytesMax) refuse(`the answer is larger than ${bytesMax} bytes`);
      });
      response.on("error", reject);
      response.on("end", () => resolve(Buffer.concat(pieces).toString("utf8")));
    });
    outgoing.end();
  });
