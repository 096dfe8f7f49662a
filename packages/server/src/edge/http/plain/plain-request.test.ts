/** Node's own parser is the oracle: what is taken for plain must mean the same to it. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import { duplexPair } from "node:stream";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { routes } from "../../../start/features.ts";
import { PlainRoutes, readPlain } from "./plain-request.ts";

interface Seen {
  readonly path: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** The requests that Node finds in the bytes, with all of their bodies. */
async function seenByNode(bytes: Buffer): Promise<Seen[]> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("latin1").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      seen.push({ path: request.url, headers: request.headers, body });
      response.end();
    });
  });
  const [near, far] = duplexPair();
  server.emit("connection", near);
  far.resume();
  await new Promise<void>((resolve) => {
    far.once("close", resolve).once("end", resolve).on("error", resolve);
    near.once("close", resolve).on("error", resolve);
    far.end(bytes);
  });
  near.destroy();
  return seen;
}

const plain =
  "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nX-Request-Id: r\r\n" +
  "Accept: */*\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody";

const usedNames = ["authorization", "x-role", "x-request-id", "traceparent", "tracestate"];

test("a POST with a length and headers that mean nothing to HTTP is plain", () => {
  const found = readPlain(Buffer.from(plain));
  assert.equal(found?.path, "/v1/codeq/tasks");
  assert.equal(found.headers.authorization, "Bearer t");
  assert.equal(found.headers["x-request-id"], "r");
  assert.equal(found.headers.traceparent, undefined);
  assert.equal(plain.slice(found.bodyAt), "body");
  assert.equal(found.bodyBytes, 4);
});

test("whatever HTTP gives a meaning to is left to Node", () => {
  const lines = [
    ...["Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Connection: close"],
    ...["Connection: keep-alive, upgrade", "Upgrade: h2c", "Expect: 100-continue", "TE: trailers"],
    ...["Content-Encoding: gzip", "Content-Length: 4", "Content-Length: 5", "Host: b"],
    ...["Authorization: Bearer u", "X-Request-Id: s", "Trailer: a", "Proxy-Connection: close"],
    ...[
      " folded",
      "\tfolded",
      "no colon",
      ": no name",
      "a b: space",
      "Space : before",
      "a\u0001: b",
    ],
    ...["Tab:\tvalue", "High: \u00e9", "Nul: \u0000", "Bare: \r", "Bare: \n", "Under_score: a", ""],
  ];
  for (const line of lines) {
    const text = plain.replace("Accept: */*", line);
    assert.equal(readPlain(Buffer.from(text, "latin1")), undefined, JSON.stringify(line));
  }
  for (const length of ["", "-1", "+4", "4.0", "0x4", "04", "4,4", "4 4", "4e0", "12345678", "a"]) {
    const text = plain.replace("Content-Length: 4", `Content-Length: ${length}`);
    assert.equal(readPlain(Buffer.from(text)), undefined, length);
  }
  for (const start of ["GET", "post", " POST", "PUT", "\r\nPOST"]) {
    assert.equal(readPlain(Buffer.from(plain.replace("POST", start))), undefined, start);
  }
  for (const version of ["HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", "http/1.1", "HTTP/1.1\n"]) {
    assert.equal(readPlain(Buffer.from(plain.replace("HTTP/1.1", version))), undefined, version);
  }
  for (const line of ["Host: a\r\n", "Content-Length: 4\r\n"]) {
    assert.equal(readPlain(Buffer.from(plain.replace(line, ""))), undefined, line);
  }
  const many = Array.from({ length: 70 }, (_, i) => `X-${i}: a`).join("\r\n");
  assert.equal(readPlain(Buffer.from(plain.replace("Accept: */*", many))), undefined);
  for (let end = 0; end < plain.indexOf("body"); end += 1) {
    assert.equal(readPlain(Buffer.from(plain.slice(0, end))), undefined);
  }
});

test("what is plain is one request to Node too, with the same path, headers and body", async () => {
  const pieces = fc.constantFrom(
    ...["\r\n", "\r", "\n", " ", ":", ",", ";", "0", "4", "a", "\t", "\u0000", "\u0080", "chunked"],
    ...[
      "Transfer-Encoding: chunked\r\n",
      "Content-Length: 3\r\n",
      "X-Role: admin\r\n",
      "Host: b\r\n",
    ],
    ...[
      "Connection: close\r\n",
      "POST",
      "HTTP/1.1",
      "traceparent: x\r\n",
      "Content-Length",
      "\\",
      "%",
    ],
  );
  const edits = fc.array(fc.tuple(fc.nat(plain.length), pieces, fc.nat(3)), { maxLength: 3 });
  let plainOnes = 0;
  await fc.assert(
    fc.asyncProperty(edits, async (made) => {
      let text = plain;
      for (const [at, piece, cut] of made) text = text.slice(0, at) + piece + text.slice(at + cut);
      const bytes = Buffer.from(text, "latin1");
      const found = readPlain(bytes);
      if (found === undefined || bytes.length !== found.bodyAt + found.bodyBytes) return;
      plainOnes += 1;
      // Node leaves unclear paths to the routes; here they find none.
      if (new PlainRoutes(routes).find(found.path) === undefined) return;
      const [seen, ...more] = await seenByNode(bytes);
      assert.ok(seen !== undefined && more.length === 0, JSON.stringify(text));
      assert.equal(seen.path, found.path);
      assert.equal(seen.body, bytes.toString("latin1", found.bodyAt));
      for (const name of usedNames) assert.equal(seen.headers[name], found.headers[name], name);
    }),
    { numRuns: 3000 },
  );
  assert.ok(plainOnes > 100, `${plainOnes} were plain`);
});

test("paths lead to the routes they lead to, and unusual ones are left to the router", () => {
  const found = new PlainRoutes(routes);
  const base = "/v1/codeq/tasks";
  const id = "0198c0de-0000-7000-8000-000000000001";
  for (const path of [base, `${base}/batch`, `${base}/claim`, `${base}/batch/results`]) {
    assert.equal(found.find(path)?.route.path, path);
  }
  for (const verb of ["result", "heartbeat", "nack", "abandon"]) {
    const at = found.find(`${base}/${id}/${verb}`);
    assert.equal(at?.route.path, `${base}/:id/${verb}`);
    assert.deepEqual(at?.params, { id });
  }
  const left = [
    ...[
      "/",
      "",
      `${base}/`,
      `${base}?a=1`,
      `${base}/${id}`,
      `${base}//result`,
      `${base}/a/b/result`,
    ],
    ...[`${base}/a%20b/result`, `${base}/../x/result`, `${base}/${"a".repeat(65)}/result`],
    ...[`${base}/result`, "/v1/codeq/tasks/claim/", "/V1/codeq/tasks", `${base}/${id}/result?x`],
  ];
  for (const path of left) assert.equal(found.find(path), undefined, path);
});

test("what stays of a request does not keep the rest of it in memory", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const id = "0198c0de-0000-7000-8000-000000000001";
  const bytes = Buffer.from(
    `POST /v1/codeq/tasks/${id}/nack HTTP/1.1\r\nHost: a\r\nX-Filler: ${"x".repeat(15_000)}\r\n` +
      `traceparent: 00-${"1".repeat(32)}-${"2".repeat(16)}-01\r\nContent-Length: 0\r\n\r\n`,
  );
  const found = new PlainRoutes(routes);
  const kept: unknown[] = [];
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < 2000; n += 1) {
    const request = readPlain(bytes);
    kept.push(request?.headers.traceparent, found.find(request?.path ?? "")?.params["id"]);
  }
  collect();
  const each = (process.memoryUsage().heapUsed - before) / 2000;
  assert.ok(kept.every((part) => typeof part === "string"));
  assert.ok(each < 2000, `${each} bytes for each`);
});
