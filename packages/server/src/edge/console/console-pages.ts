/**
 * The files of the web console. They are the same for all callers and need no token; the pages get their data
 * from the API. A page may run only these files, and no other site may put it into a frame.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type ConsoleFile, consoleFiles } from "./package-file.ts";

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const guarded = {
  "content-security-policy": policy,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** Only files with a content hash in their names are cached without revalidation. */
const hashed = /-[A-Z0-9]{8}\.\w+$/;
const fileName = /^[\w-]+\.(?:js|css|svg|map|gz|br)$/;
const notBuilt =
  "The console is not part of this server: it runs from its sources. npm start builds it.\n";

export function addConsolePages(app: FastifyInstance): void {
  const files = consoleFiles();
  const page = files.get("index.html");
  const showPage = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
    page === undefined
      ? reply.code(404).type("text/plain; charset=utf-8").send(notBuilt)
      : send(request, reply, { name: "index.html", file: page });
  app.get("/", showPage);
  app.get("/ui", showPage);
  app.get("/ui/*", (request, reply) => {
    const name = (request.params as Record<string, string>)["*"] ?? "";
    const file = files.get(name);
    if (file !== undefined) return send(request, reply, { name, file });
    if (fileName.test(name)) return reply.code(404).type("text/plain").send("404 page not found");
    return showPage(request, reply);
  });
}

function send(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { name, file }: { readonly name: string; readonly file: ConsoleFile },
): FastifyReply {
  const accepted = String(headers["accept-encoding"] ?? "");
  const kept = hashed.test(name) ? "public, max-age=31536000, immutable" : "no-cache";
  reply.headers({ ...guarded, "cache-control": kept, vary: "accept-encoding" });
  reply.type(types[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream");
  if (/\bbr\b/.test(accepted)) return reply.header("content-encoding", "br").send(file.br);
  if (/\bgzip\b/.test(accepted)) return reply.header("content-encoding", "gzip").send(file.gz);
  return reply.send(file.plain);
}
