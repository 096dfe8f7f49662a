/** Hostile clients of the HTTP port hurt themselves; `npm run hostile` measures the same at length. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
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
