import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "@codeq/simulated";
import { ScriptedServer } from "../../test/scripted-server.ts";
import { CodeqError } from "../codeq-error.ts";
import { Connection, type Next, type TokenSource } from "./connection.ts";

type Event = { case: "hello"; value: string } | { case: "ask"; value: number };
type Reply = { case: "helloAck" } | { case: "answer"; value: number };

function setup(options: { token?: TokenSource; next?: Next } = {}) {
  const server = new ScriptedServer<Event, Reply>();
  const seen: string[] = [];
  const answer = { next: options.next ?? ("again" as Next) };
  const connection = new Connection<Event, Reply>({
    runtime: server.runtime,
    openSession: server.openSession,
    token: options.token ?? (() => "secret"),
    hello: (token) => ({ case: "hello", value: token }),
    isHelloAck: (reply) => reply.case === "helloAck",
    stay: () => false,
    listener: {
      opened: () => seen.push("opened"),
      reply: (reply) => seen.push(`reply ${reply.case}`),
      drained: () => seen.push("drained"),
      lost: (error) => {
        seen.push(`lost ${error.code}`);
        return answer.next;
      },
      refused: (error) => {
        seen.push(`refused ${error.code}`);
        return answer.next;
      },
    },
  });
  const open = async (): Promise<void> => {
    connection.connect();
    await settle();
    await server.last.reply({ case: "helloAck" });
  };
  return { server, connection, seen, answer, open };
}

test("it says Hello first and is open when that is accepted", async () => {
  const { server, connection, seen } = setup();
  connection.connect();
  connection.connect();
  await settle();
  assert.equal(server.sessions.length, 1);
  assert.deepEqual(server.last.events, [{ case: "hello", value: "secret" }]);
  assert.ok(!connection.isOpen && !connection.send({ case: "ask", value: 1 }));
  await server.last.reply({ case: "helloAck" });
  assert.ok(connection.isOpen && connection.send({ case: "ask", value: 1 }));
  await server.last.reply({ case: "answer", value: 1 });
  assert.deepEqual(seen, ["opened", "reply answer"]);
  assert.deepEqual(server.last.said, ["hello", "ask"]);
});

test("a lost session is followed by another, with growing pauses while that fails", async () => {
  const { server, seen, open } = setup();
  await open();
  server.failures = [1, 2].map((n) => new CodeqError("unavailable", `failure ${n}`));
  await server.last.end("lost");
  assert.deepEqual(seen, ["opened", "lost unavailable"]);
  await server.advance(99);
  assert.equal(server.failures.length, 2);
  await server.advance(1);
  assert.equal(server.failures.length, 1);
  await server.advance(199);
  assert.equal(server.failures.length, 1);
  await server.advance(1);
  assert.equal(server.failures.length, 0);
  await server.advance(300);
  await server.last.reply({ case: "helloAck" });
  assert.equal(seen.at(-1), "opened");
  await server.last.end("lost");
  await server.advance(100);
  assert.equal(server.sessions.length, 3, "the pauses begin anew after a success");
});

test("a server that does not answer is given up and tried again", async () => {
  const { server, connection, seen } = setup();
  connection.connect();
  await settle();
  await server.advance(9_999);
  assert.ok(!server.last.isCut);
  await server.advance(1);
  assert.ok(server.last.isCut);
  assert.deepEqual(seen, ["lost unavailable"]);
  assert.equal(connection.lastError?.message, "the server does not answer");
  await server.advance(100);
  assert.equal(server.sessions.length, 2);
});

test("what a session says after its end is not heard", async () => {
  const { server, connection, seen, open } = setup();
  await open();
  const first = server.last;
  await first.end("lost");
  await first.reply({ case: "answer", value: 1 });
  await first.end("lost");
  assert.deepEqual(seen, ["opened", "lost unavailable"]);
  await server.advance(100);
  await first.end("lost");
  await server.last.reply({ case: "helloAck" });
  assert.ok(connection.isOpen);
});

test("a refused Hello rests or is tried again, as the owner says", async () => {
  for (const next of ["again", "rest"] as const) {
    const { server, connection, seen } = setup({ next });
    connection.connect();
    await settle();
    await server.last.end("refused", "invalid_token");
    assert.deepEqual(seen, ["refused invalid_token"]);
    await server.advance(60_000);
    if (next === "again") assert.ok(server.sessions.length > 1);
    else assert.equal(server.sessions.length, 1);
  }
});

test("a token that runs out in an open session is asked for again", async () => {
  let asked = 0;
  const token = async (): Promise<string> => {
    asked += 1;
    return `token ${asked}`;
  };
  const { server, seen, open } = setup({ token });
  await open();
  await server.last.end("refused", "token_expired");
  assert.equal(seen.at(-1), "lost token_expired");
  await server.advance(100);
  assert.deepEqual(server.last.events, [{ case: "hello", value: "token 2" }]);
});

test("a token that cannot be had is a reason to try again", async () => {
  let fails = true;
  const token = (): string => {
    if (fails) throw new Error("the vault is sealed");
    return "secret";
  };
  const { server, connection, seen } = setup({ token });
  connection.connect();
  await settle();
  assert.deepEqual(seen, ["lost unavailable"]);
  assert.equal(connection.lastError?.message, "the vault is sealed");
  fails = false;
  await server.advance(100);
  assert.deepEqual(server.last.said, ["hello"]);
});

test("renewing ends in good order and begins again at once", async () => {
  const { server, connection, seen, open } = setup();
  await open();
  const first = server.last;
  connection.renew();
  assert.ok(first.isFinished && !first.isCut && !connection.isOpen);
  await first.reply({ case: "answer", value: 1 });
  await first.end("over");
  assert.deepEqual(seen, ["opened", "reply answer", "lost unavailable"]);
  assert.equal(server.sessions.length, 2);
});

test("a server that does not say goodbye does not hold up the end", async () => {
  const { server, connection, open } = setup();
  await open();
  let isClosed = false;
  void connection.close().then(() => {
    isClosed = true;
  });
  await server.advance(4_999);
  assert.ok(server.last.isFinished && !isClosed);
  await server.advance(1);
  assert.ok(server.last.isCut && isClosed);
});

test("a closed connection stays closed, whatever it was doing", async () => {
  for (const moment of ["resting", "connecting", "pausing"] as const) {
    const { server, connection, seen } = setup();
    if (moment === "pausing") server.failures = [new CodeqError("unavailable", "no")];
    if (moment !== "resting") connection.connect();
    if (moment === "pausing") await settle();
    await connection.close();
    connection.connect();
    await server.advance(60_000);
    assert.ok(server.sessions.every(({ isCut }) => isCut));
    assert.ok(!seen.includes("opened"));
    assert.equal(server.clock.timers, 0);
  }
});

test("whether the process stays alive is passed on to every session", async () => {
  const { server, connection, open } = setup();
  await open();
  connection.keepAwake(false);
  assert.ok(!server.last.isAwake);
  await server.last.end("lost");
  await server.advance(100);
  assert.ok(!server.last.isAwake);
});
