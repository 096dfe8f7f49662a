/** A port that takes requests of the server, with a limit on what it reads. */
import { createServer } from "node:http";
import { CodeqError } from "../codeq-error.ts";
import type { Listen } from "../runtime.ts";

const bodyBytesMax = 64 * 1024;

export const listenForHttp: Listen = ({ port, host }, receive) =>
  new Promise((resolve, reject) => {
    const server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      request.on("data", (piece: Buffer) => {
        bytes += piece.length;
        if (bytes <= bodyBytesMax) pieces.push(piece);
        else request.destroy();
      });
      request.on("end", () => {
        const isPost = request.method === "POST";
        const body = Buffer.concat(pieces);
        response.writeHead(isPost ? receive({ body, headers: request.headers }) : 405).end();
      });
      // The sender went away, and sends it again.
      request.on("error", () => {});
    });
    server.once("error", (cause) => {
      const text = `cannot listen on port ${port}: ${cause.message}; give another port`;
      reject(new CodeqError("invalid_option", text, { cause }));
    });
    server.listen({ port, host }, () => {
      resolve({
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });
