/** Hostile clients of the HTTP port hurt themselves; `npm run hostile` measures the same at length. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { SimClock, settle } from "@codeq/simulated";
import { until } from "../../contract/setup.ts";
import type { Crowd } from "./crowd.ts";
import { setup } from "./setup.ts";

const short = { headersTimeoutSeconds: 1, requestTimeoutSeconds: 2, keepAliveSeconds: 1 };
/** The longest of the times above, the interval of the checks, and a machine that is very busy. */
const livedMsMax = 30_000;
const size = 20;

function assertAll(crowd: Crowd, answer: string): void {
  const { answers, closed, livedMsMax: lived } = crowd.report;
  assert.deepEqual([...answers], [[answer, size]]);
  assert.equal(closed, size);
  assert.ok(lived < livedMsMax, `one lived for ${lived} ms`);
}

for (const [name, answer] of [
  ["slow-headers", "HTTP/1.1 408"],
  ["slow-body", "HTTP/1.1 408"],
  ["half-headers", "HTTP/1.1 408"],
  ["half-lines", "HTTP/1.1 408"],
  ["idle", "HTTP/1.1 408"],
  ["idle-after-request", "HTTP/1.1 200"],
] as const) {
  test(`${name}: the connections are closed in time`, async (t) => {
    const world = await setup(t, short);
    const crowd = await world.attack(name, size);
    await world.healthy();
    await crowd.untilClosed(size);
    assertAll(crowd, answer);
    await world.healthy();
  });
}

test("endless-headers: the connections are closed once the headers are too long", async (t) => {
  const world = await setup(t);
  const crowd = await world.attack("endless-headers", size);
  await world.healthy();
  await crowd.untilClosed(size);
  // A reset may overtake the answer, as the client goes on sending.
  for (const [answer] of crowd.report.answers) assert.equal(answer, "HTTP/1.1 431");
});

for (const [name, answer] of [
  ["many-headers", "HTTP/1.1 200"],
  ["full-headers", "HTTP/1.1 200"],
  ["upgrades", "HTTP/1.1 200"],
  ["many-parameters", "HTTP/1.1 401"],
  ["many-cookies", "HTTP/1.1 200"],
  ["long-sign-ins", "HTTP/1.1 401"],
  ["gzip-bomb", "HTTP/1.1 415"],
  ["deep-json", "HTTP/1.1 202"],
  ["many-keys", "HTTP/1.1 400"],
] as const) {
  test(`${name}: a healthy client is served in between`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 2);
    await until(() => crowd.report.answers.get(answer) === 2);
    await world.healthy(2);
    assert.deepEqual([...crowd.report.answers], [[answer, 2]]);
    assert.equal(crowd.report.closed, 0);
  });
}

test("pipelining: whoever does not wait for answers is cut off", async (t) => {
  const world = await setup(t);
  const crowd = await world.attack("pipelining", 4);
  await world.healthy();
  await crowd.untilClosed(4);
  await world.healthy();
});

for (const name of ["strange-expectations", "expected-continues", "connects"]) {
  test(`${name}: whoever does not wait for answers is cut off`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 4);
    await world.healthy();
    await crowd.untilClosed(4);
  });
}

test("a request that expects something unknown is answered like others", async (t) => {
  const { server } = await setup(t);
  const request = "GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: x\r\nConnection: close\r\n\r\n";
  assert.match(await exchange(server.ports.port, request), /^HTTP\/1.1 200 /);
});

for (const [name, answer] of [
  ["refused-chunks", "HTTP/1.1 401"],
  ["stray-chunks", "HTTP/1.1 404"],
  ["tiny-chunks", "HTTP/1.1 400"],
] as const) {
  test(`${name}: the connections are closed, and the chunks are not parsed`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 4);
    await world.healthy();
    await crowd.untilClosed(4);
    // A reset may overtake the answer.
    for (const [each] of crowd.report.answers) assert.equal(each, answer);
  });
}

for (const [count, bytes, answer] of [
  [1000, 1, "HTTP/1.1 202"],
  [1001, 1, "HTTP/1.1 400"],
  [2000, 32, "HTTP/1.1 202"],
] as const) {
  test(`a body in ${count} chunks of ${bytes} bytes: ${answer}`, async (t) => {
    const { server } = await setup(t);
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    const task = '{"command":"chunks","payload":"in many chunks"}';
    const spaces = chunk(" ".repeat(bytes)).repeat(count);
    const body = `${spaces}${chunk(task)}${chunk("")}`;
    const head =
      "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dev-token\r\n" +
      "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert.ok((await exchange(server.ports.port, head + body)).startsWith(answer));
  });
}

/** Sends all of it at once and gives what comes back, until this many answers have come. */
function pipelined(port: number, requests: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(requests));
  let text = "";
  return new Promise((resolve) => {
    const finish = (): void => {
      socket.destroy();
      resolve(text);
    };
    socket.on("error", finish);
    socket.on("close", finish);
    socket.on("data", (chunk) => {
      text += chunk;
      if (text.split("HTTP/1.1 200").length > requests) finish();
    });
  });
}

test("a few requests without waiting are answered, again and again", async (t) => {
  const { server } = await setup(t);
  for (let round = 0; round < 5; round += 1) {
    const text = await pipelined(server.ports.port, 32);
    assert.equal(text.split("HTTP/1.1 200").length - 1, 32);
  }
  const cut = await pipelined(server.ports.port, 100);
  assert.ok(cut.split("HTTP/1.1 200").length - 1 < 100);
});

test("beyond the limit of connections strangers make room, for others and for each other", async (t) => {
  const world = await setup(t, { connectionsMax: 50 });
  const kept = await world.attack("idle-after-request", 40);
  const crowd = await world.attack("idle", 200);
  await world.healthy(20);
  const { server } = world;
  await until(() => server.connections <= 50);
  assert.ok(server.givenUp >= 190, `${server.givenUp} were given up`);
  assert.equal(kept.report.closed + crowd.report.closed >= 190, true);
  assert.match(await world.server.line("too many connections"), /"listener":"http","max":50/);
});

test("a request that waits keeps its connection while strangers come and go", async (t) => {
  const world = await setup(t, { connectionsMax: 10 });
  const { server } = world;
  const waiting = fetch(`http://127.0.0.1:${server.ports.port}/v1/codeq/tasks/claim`, {
    method: "POST",
    headers: { authorization: "Bearer dev-token" },
    body: '{"commands":["rare"],"waitSeconds":30}',
  });
  await server.api.untilWaiting(1);
  const crowd = await world.attack("idle", 100);
  await crowd.untilClosed(90);
  const created = await fetch(`http://127.0.0.1:${server.ports.port}/v1/codeq/tasks`, {
    method: "POST",
    headers: { authorization: "Bearer dev-token" },
    body: '{"command":"rare","payload":1}',
  });
  assert.equal(created.status, 202);
  assert.equal((await waiting).status, 200);
});

const mebibyte = 1024 * 1024;

/** Sends the text and gives everything that comes back until the connection is closed. */
function exchange(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(text);
  let answer = "";
  return new Promise((resolve) => {
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    socket.on("error", () => {
      // The close follows.
    });
    socket.on("close", () => resolve(answer));
  });
}

test("half-bodies: the oldest are refused with 503 and Retry-After, and others are served", async (t) => {
  const world = await setup(t, { memoryBytes: 64 * mebibyte, bodyBytesMax: 4 * mebibyte });
  const { port } = world.server.ports;
  const first = exchange(
    port,
    "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dev-token\r\n" +
      `Content-Length: ${4 * mebibyte}\r\n\r\n${" ".repeat(4 * mebibyte - 1)}`,
  );
  await world.attack("half-bodies", size);
  const refused = await first;
  assert.match(refused, /^HTTP\/1.1 503 /);
  assert.match(refused, /retry-after: 1\r\n/i);
  assert.match(refused, /no memory left for this body/);
  await world.healthy();
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const inFlight = Number(/^codeq_in_flight_bytes (\d+)/m.exec(page)?.[1]);
  assert.ok(inFlight <= 8 * mebibyte, `${inFlight} bytes`);
});

test("slow-body: a body that arrives too slowly is refused before the time for a request is over", async (t) => {
  const clock = new SimClock();
  const world = await setup(t, {}, clock);
  const { port } = world.server.ports;
  const answered = exchange(
    port,
    "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dev-token\r\n" +
      `Content-Length: ${mebibyte}\r\n\r\n{`,
  );
  await until(() => world.server.connections === 1);
  let isOver = false;
  void answered.finally(() => {
    isOver = true;
  });
  for (let second = 0; second < 6 && !isOver; second += 1) {
    await settle(5);
    await clock.advance(1000);
  }
  assert.match(await answered, /^HTTP\/1.1 408 .*body_too_slow/s);
});

test("a client that reads none of its answers is closed when others need the memory", async (t) => {
  const world = await setup(t, { memoryBytes: 64 * mebibyte });
  const { port } = world.server.ports;
  const headers = { authorization: "Bearer dev-token" };
  const url = `http://127.0.0.1:${port}/v1/codeq/tasks`;
  const body = JSON.stringify({ command: "large", payload: "x".repeat(1_000_000) });
  const created = await fetch(url, { method: "POST", headers, body });
  const { id } = (await created.json()) as { id: string };
  const accepted = new Promise<Socket>((resolve) => world.server.onSocket(resolve));
  const socket = connect({ port, host: "127.0.0.1" });
  t.after(() => socket.destroy());
  const unread = await accepted;
  const get = `GET /v1/codeq/tasks/${id} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dev-token\r\n\r\n`;
  socket.write(get.repeat(32));
  await until(async () => {
    const answer = await fetch(`${url}/${id}`, { headers });
    assert.ok((await answer.text()).length > 1_000_000);
    return unread.destroyed;
  });
});

test("early-requests: beyond the limit for what arrives behind unanswered requests, connections are closed", async (t) => {
  const world = await setup(t, { memoryBytes: 64 * mebibyte });
  const crowd = await world.attack("early-requests", 60);
  await crowd.untilClosed(1);
  assert.ok(crowd.report.closed < 60, "those below the limit stay");
  await world.healthy();
});

for (const path of ["/ui/session", "/nothing"]) {
  test(`a body for ${path} is not kept, because its sender is unknown`, async (t) => {
    const world = await setup(t);
    const answer = await exchange(
      world.server.ports.port,
      `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${mebibyte}\r\n\r\n{`,
    );
    // Answered without waiting for the rest.
    assert.match(answer, /^HTTP\/1.1 40[14] /);
  });
}

test("a connection that is reset in the middle of a request is an abort and no error", async (t) => {
  const world = await setup(t);
  const { port } = world.server.ports;
  const reset = (text: string): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.write(text, () => {
          socket.resetAndDestroy();
          resolve();
        });
      });
      socket.on("error", () => {
        // It was reset on purpose.
      });
    });
  const head = "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dev-token\r\n";
  for (let round = 0; round < 20; round += 1) {
    await reset(`${head}Content-Length: 100000\r\n\r\n{${" ".repeat(round * 100)}`);
  }
  await until(() => world.server.measured().includes("codeq_http_aborted_total 20"));
  assert.deepEqual(
    world.server.lines.filter((line) => line.includes('"level":"error"')),
    [],
  );
});

test("wrong-tokens: a connection has one request in a turn, and whoever does not wait is cut off", async (t) => {
  const world = await setup(t);
  const { port } = world.server.ports;
  const wrong =
    "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nContent-Length: 2\r\n\r\n{}";
  const flood = exchange(port, wrong.repeat(300));
  await world.healthy();
  const answers = (await flood).split("HTTP/1.1 401").length - 1;
  assert.ok(answers <= 32, `${answers} of 300 requests were answered`);
});

test("a caller that is refused again and again is answered later, and closed in the end", async (t) => {
  const clock = new SimClock();
  const world = await setup(t, {}, clock);
  const socket = connect(world.server.ports.port, "127.0.0.1");
  t.after(() => socket.destroy());
  let isClosed = false;
  let answers = 0;
  socket.on("data", (chunk) => {
    answers += String(chunk).split("HTTP/1.1 401").length - 1;
  });
  socket.on("close", () => {
    isClosed = true;
  });
  const ask = async (): Promise<void> => {
    const before = answers;
    socket.write(
      "POST /v1/codeq/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nContent-Length: 2\r\n\r\n{}",
    );
    await settle(5);
    while (answers === before && !isClosed) {
      await clock.advance(100);
      await settle(5);
    }
  };
  const startedMs = clock.monotonicMs();
  for (let request = 0; request < 8; request += 1) await ask();
  const freeMs = clock.monotonicMs() - startedMs;
  await ask();
  assert.ok(clock.monotonicMs() - startedMs - freeMs >= 100, "the ninth waits");
  while (answers < 65 && !isClosed) await ask();
  await until(() => isClosed);
  assert.ok(answers <= 65, `${answers} answers`);
});

for (const method of ["TRACE", "QUERY"]) {
  test(`${method} is not allowed anywhere`, async (t) => {
    const { server } = await setup(t);
    for (const path of ["/healthz", "/v1/codeq/tasks", "/nothing"]) {
      const request = `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
      assert.match(await exchange(server.ports.port, request), /^HTTP\/1.1 405 .*\r\nallow: /s);
    }
  });
}
