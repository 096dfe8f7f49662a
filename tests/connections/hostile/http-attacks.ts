/** What hostile clients do to the HTTP port. */
import type { Socket } from "node:net";
import type { Attack } from "./attack.ts";
import type { Play } from "./crowd.ts";
import { gzipBomb } from "./gzip-bomb.ts";

const dribbleMs = 500;
const mebibyte = 1024 * 1024;

function head(
  lines: Readonly<Record<string, string | number>>,
  method = "POST /v1/codeq/tasks",
): string {
  const fields = { Host: "localhost", ...lines };
  const text = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} HTTP/1.1\r\n${text.join("")}`;
}

/** The same request again and again, each after the answer to the one before. */
function repeat(makeRequest: (token: string) => Buffer): (token: string) => Play {
  return (token) => {
    const request = makeRequest(token);
    return (socket) => {
      let leftBytes = 0;
      socket.write(request);
      socket.on("data", (chunk) => {
        const answer = leftBytes === 0 ? lengthOf(chunk.toString("latin1")) : leftBytes;
        leftBytes = Math.max(0, answer - chunk.length);
        if (leftBytes === 0) socket.write(request);
      });
    };
  };
}

/** Of a whole answer, by its head. */
function lengthOf(text: string): number {
  const [head = ""] = text.split("\r\n\r\n", 1);
  return head.length + 4 + Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
}

function post(token: string, body: Buffer, more: Readonly<Record<string, string>> = {}): Buffer {
  const fields = { Authorization: `Bearer ${token}`, "Content-Length": body.length, ...more };
  return Buffer.concat([Buffer.from(`${head(fields)}\r\n`), body]);
}

/** Nearly all of a body of 4 MiB, and then nothing. */
function halfBody(method: string, more: Readonly<Record<string, string>> = {}): Play {
  const bytes = 4 * mebibyte;
  const sent = Buffer.concat([
    Buffer.from(`${head({ ...more, "Content-Length": bytes }, method)}\r\n`),
    Buffer.alloc(bytes - 100, " "),
  ]);
  return (socket) => void socket.write(sent);
}

/** The same bytes, as fast as they are taken. */
function flood(text: string): (socket: Socket) => void {
  const bytes = Buffer.from(text);
  return (socket) => {
    const more = (): void => void socket.write(bytes, () => socket.writable && more());
    more();
  };
}

function dribble(socket: Socket, every: Parameters<Play>[1], letter = "a"): void {
  every(dribbleMs, () => void socket.write(letter));
}

export const httpAttacks: readonly Attack[] = [
  {
    name: "slow-headers",
    about: "headers, one byte at a time",
    port: "http",
    connections: 1000,
    play: () => (socket, every) => {
      socket.write(`${head({})}X-Slow: `);
      dribble(socket, every);
    },
  },
  {
    name: "slow-body",
    about: "a body, one byte at a time, with a good token",
    port: "http",
    connections: 1000,
    play: (token) => (socket, every) => {
      const fields = { Authorization: `Bearer ${token}`, "Content-Length": mebibyte };
      socket.write(`${head(fields)}\r\n{"command":"`);
      dribble(socket, every);
    },
  },
  {
    name: "idle",
    about: "connections that say nothing",
    port: "http",
    connections: 10_000,
    play: () => () => {},
  },
  {
    name: "idle-after-request",
    about: "connections that say nothing after one request",
    port: "http",
    connections: 10_000,
    play: () => (socket) => void socket.write(`${head({}, "GET /healthz")}\r\n`),
  },
  {
    name: "endless-headers",
    about: "headers without an end, as fast as they are taken",
    port: "http",
    connections: 50,
    play: () => (socket) => {
      socket.write(head({}));
      const lines = Buffer.from(`X-Flood: ${"x".repeat(1000)}\r\n`.repeat(64));
      const more = (): void => void socket.write(lines, () => socket.writable && more());
      more();
    },
  },
  {
    name: "many-headers",
    about: "as many headers as fit, again and again",
    port: "http",
    connections: 8,
    play: repeat(() => {
      const many = Array.from({ length: 700 }, (_, n) => `h${n}: v\r\n`).join("");
      return Buffer.from(`${head({}, "GET /healthz")}${many}\r\n`);
    }),
  },
  {
    name: "gzip-bomb",
    about: "a compressed body of 1 MiB that would be 1 GiB, with a good token",
    port: "http",
    connections: 8,
    play: repeat((token) => post(token, gzipBomb(), { "Content-Encoding": "gzip" })),
  },
  {
    name: "deep-json",
    about: "a payload of 100,000 levels, with a good token",
    port: "http",
    connections: 4,
    play: repeat((token) => {
      const payload = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
      return post(
        token,
        Buffer.from(`{"command":"deep","delaySeconds":9999999,"payload":${payload}}`),
      );
    }),
  },
  {
    name: "many-keys",
    about: "a body of 4 MiB with 300,000 keys, with a good token",
    port: "http",
    connections: 4,
    play: repeat((token) => {
      const keys = Array.from({ length: 300_000 }, (_, n) => `"k${n}":${n % 10}`).join(",");
      return post(token, Buffer.from(`{"command":"keys",${keys}}`));
    }),
  },
  {
    name: "half-bodies",
    about: "nearly all of a body of 4 MiB, with a good token",
    port: "http",
    connections: 200,
    play: (token) => halfBody("POST /v1/codeq/tasks", { Authorization: `Bearer ${token}` }),
  },
  {
    name: "half-sign-ins",
    about: "nearly all of a body of 4 MiB for a sign-in to the console, without a token",
    port: "http",
    connections: 200,
    play: () => halfBody("POST /ui/session"),
  },
  {
    name: "half-strays",
    about: "nearly all of a body of 4 MiB for a path that does not exist",
    port: "http",
    connections: 200,
    play: () => halfBody("POST /nothing"),
  },
  {
    name: "tiny-chunks",
    about: "a body of 4 MiB in chunks of one byte, as fast as they are taken, with a good token",
    port: "http",
    connections: 8,
    play: (token) => (socket) => {
      const fields = { Authorization: `Bearer ${token}`, "Transfer-Encoding": "chunked" };
      socket.write(`${head(fields)}\r\n`);
      const chunks = Buffer.from("1\r\n \r\n".repeat(10_000));
      const more = (): void => void socket.write(chunks, () => socket.writable && more());
      more();
    },
  },
  {
    name: "early-requests",
    about:
      "a claim that waits, and behind it as much of another request as is taken, with a good token",
    port: "http",
    connections: 1000,
    play: (token) => (socket) => {
      const claim = '{"commands":["nothing"],"waitSeconds":30}';
      const fields = { Authorization: `Bearer ${token}`, "Content-Length": claim.length };
      socket.write(`${head(fields, "POST /v1/codeq/tasks/claim")}\r\n${claim}`);
      const next = { Authorization: `Bearer ${token}`, "Content-Length": mebibyte };
      setTimeout(() => socket.write(`${head(next)}\r\n${" ".repeat(160_000)}`), 200);
    },
  },
  {
    name: "unread-answers",
    about: "questions for large pages, whose answers are not read, with a good token",
    port: "http",
    connections: 1000,
    play: (token) => (socket) => {
      const fields = { Authorization: `Bearer ${token}` };
      const page = `${head(fields, "GET /v1/codeq/admin/settings")}\r\n`;
      const documents = `${head({}, "GET /openapi.json")}\r\n`;
      const metrics = `${head({}, "GET /metrics")}\r\n`;
      setImmediate(() => socket.pause());
      socket.write(documents.repeat(10) + metrics.repeat(10) + page.repeat(10));
    },
  },
  {
    name: "wrong-tokens",
    about: "requests with a wrong token, as fast as they are taken",
    port: "http",
    connections: 4,
    play: () => (socket) => {
      const body = Buffer.from('{"command":"work","payload":{}}');
      const requests = Buffer.concat(Array.from({ length: 300 }, () => post("wrong", body)));
      const more = (): void => void socket.write(requests, () => socket.writable && more());
      more();
    },
  },
  {
    name: "wrong-tokens-in-turn",
    about: "requests with a wrong token, one after the other",
    port: "http",
    connections: 50,
    play: repeat(() => post("wrong", Buffer.from('{"command":"work","payload":{}}'))),
  },
  {
    name: "pipelining",
    about: "requests without waiting for answers, as fast as they are taken",
    port: "http",
    connections: 16,
    play: () => flood(`${head({}, "GET /healthz")}\r\n`.repeat(2000)),
  },
  {
    name: "strange-expectations",
    about: "requests that expect something unknown, as fast as they are taken",
    port: "http",
    connections: 4,
    play: () => flood(`${head({ Expect: "x" }, "GET /healthz")}\r\n`.repeat(1000)),
  },
  {
    name: "expected-continues",
    about: "requests that wait for 100 Continue, as fast as they are taken",
    port: "http",
    connections: 4,
    play: () =>
      flood(`${head({ Expect: "100-continue", "Content-Length": 2 })}\r\n{}`.repeat(1000)),
  },
  {
    name: "refused-chunks",
    about: "a body in chunks of one byte behind a wrong token, as fast as they are taken",
    port: "http",
    connections: 8,
    play: () => (socket) => {
      const fields = { Authorization: "Bearer wrong", "Transfer-Encoding": "chunked" };
      socket.write(`${head(fields)}\r\n`);
      flood("1\r\n \r\n".repeat(10_000))(socket);
    },
  },
  {
    name: "stray-chunks",
    about: "a body in chunks of one byte for a path that does not exist, as fast as they are taken",
    port: "http",
    connections: 8,
    play: () => (socket) => {
      socket.write(`${head({ "Transfer-Encoding": "chunked" }, "POST /nothing")}\r\n`);
      flood("1\r\n \r\n".repeat(10_000))(socket);
    },
  },
  {
    name: "connects",
    about: "the method CONNECT, as fast as it is taken",
    port: "http",
    connections: 4,
    play: () => flood(`${head({}, "CONNECT localhost:80")}\r\n`.repeat(1000)),
  },
  {
    name: "upgrades",
    about: "requests for another protocol, as fast as they are taken",
    port: "http",
    connections: 4,
    play: () =>
      flood(
        `${head({ Connection: "upgrade", Upgrade: "websocket" }, "GET /healthz")}\r\n`.repeat(1000),
      ),
  },
  {
    name: "full-headers",
    about: "headers up to the limit, again and again",
    port: "http",
    connections: 50,
    play: repeat(() =>
      Buffer.from(`${head({ "X-Full": "x".repeat(15_000) }, "GET /healthz")}\r\n`),
    ),
  },
  {
    name: "half-headers",
    about: "headers of 15 KiB without an end",
    port: "http",
    connections: 1000,
    play: () => (socket) => void socket.write(`${head({})}X-Long: ${"x".repeat(15_000)}`),
  },
  {
    name: "half-lines",
    about: "a request line of 15 KiB without an end",
    port: "http",
    connections: 1000,
    play: () => (socket) => void socket.write(`GET /${"x".repeat(15_000)}`),
  },
  {
    name: "half-refused",
    about: "nearly all of a body of 4 MiB, with a wrong token",
    port: "http",
    connections: 200,
    play: () => halfBody("POST /v1/codeq/tasks", { Authorization: "Bearer wrong" }),
  },
  {
    name: "many-parameters",
    about: "thousands of query parameters with a wrong token, one request after the other",
    port: "http",
    connections: 50,
    play: repeat(() =>
      Buffer.from(`${head({}, `GET /v1/codeq/tasks/x?${"a&b=%20&".repeat(1700)}`)}\r\n`),
    ),
  },
  {
    name: "many-cookies",
    about: "sign-ins to the console with thousands of cookies, one after the other",
    port: "http",
    connections: 50,
    play: repeat(() =>
      Buffer.from(`${head({ Cookie: "a=b;".repeat(3500) }, "GET /ui/session")}\r\n`),
    ),
  },
  {
    name: "long-sign-ins",
    about: "sign-ins to the console with long wrong tokens, one after the other",
    port: "http",
    connections: 50,
    play: repeat(() =>
      Buffer.from(
        `${head({ Authorization: `Bearer ${"x".repeat(14_000)}`, "Content-Length": 0 }, "POST /ui/session")}\r\n`,
      ),
    ),
  },
  {
    name: "unread-pages",
    about: "the OpenAPI document 30 times, without reading it",
    port: "http",
    connections: 1000,
    play: () => (socket) => {
      setImmediate(() => socket.pause());
      socket.write(`${head({}, "GET /openapi.json")}\r\n`.repeat(30));
    },
  },
];
