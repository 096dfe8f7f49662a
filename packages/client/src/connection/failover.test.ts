import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemClock } from "../clock.ts";
import { CodeqError } from "../codeq-error.ts";
import { failureOf, HttpApi, type HttpRequest } from "../http/http-api.ts";
import { Failover } from "./failover.ts";

type Answer = () => Promise<Response>;

/** Servers with these answers; `asked` has which of them was asked, in order. */
function setup(...answers: readonly Answer[]) {
  const asked: number[] = [];
  const places = answers.map((answer, at) => {
    const url = new URL(`http://node-${at}:8080`);
    const fetch = (): Promise<Response> => {
      asked.push(at);
      return answer();
    };
    return { url, api: new HttpApi({ url, clock: systemClock, fetch: fetch as never }) };
  });
  const servers = new Failover(places, failureOf);
  const signal = new AbortController().signal;
  const ask = (fields: Partial<HttpRequest> = {}): Promise<unknown> => {
    const request = { path: "/tasks", token: "t", signal, ...fields };
    return servers.ask(request, ({ api }) => api.ask(request));
  };
  const follow = async (): Promise<string[]> => {
    const request = { path: "/events", token: "t", signal };
    const names: string[] = [];
    const events = servers.follow(request, ({ api }) => api.follow(request));
    for await (const { name } of events) names.push(name);
    return names;
  };
  return { asked, ask, follow };
}

const ok: Answer = () => Promise.resolve(Response.json({ ok: true }));
const failing = (code: string): Answer => {
  return () => Promise.reject(new TypeError("fetch failed", { cause: errorOf(code) }));
};
const errorOf = (code: string): Error => Object.assign(new Error(code), { code });

const told = "event: created\ndata: 1\n\n";
const telling: Answer = () => Promise.resolve(new Response(told));
/** Tells something, and breaks. */
const breaking: Answer = () => {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Buffer.from(told)),
    pull: (controller) => controller.error(errorOf("ECONNRESET")),
  });
  return Promise.resolve(new Response(body));
};

const leaderless: Answer = () => {
  const headers = { "codeq-error": "no_leader" };
  const body = { error: "no node is the leader" };
  return Promise.resolve(Response.json(body, { status: 503, headers }));
};

describe("servers by turns", () => {
  test("one that cannot reach the leader is followed by the next, also for changes", async () => {
    const { asked, ask } = setup(leaderless, ok);
    await ask({ method: "POST", body: "{}" });
    await ask({ method: "POST", body: "{}" });
    assert.deepEqual(asked, [0, 1, 1]);
  });

  test("none of which reaches the leader are each asked once", async () => {
    const { asked, ask } = setup(leaderless, leaderless);
    await assert.rejects(ask({ method: "POST", body: "{}" }), { code: "no_leader" });
    assert.deepEqual(asked, [0, 1]);
  });

  test("one that answers is asked again", async () => {
    const { asked, ask } = setup(ok, ok);
    await ask();
    await ask();
    assert.deepEqual(asked, [0, 0]);
  });

  test("when one cannot be reached the next is asked, from then on", async () => {
    const { asked, ask } = setup(failing("ECONNREFUSED"), ok, ok);
    assert.deepEqual(await ask({ method: "POST", body: "{}" }), { ok: true });
    await ask();
    assert.deepEqual(asked, [0, 1, 1]);
  });

  test("a change that may have arrived is not sent again; a question is", async () => {
    const { asked, ask } = setup(failing("ECONNRESET"), ok);
    await assert.rejects(ask({ method: "POST", body: "{}" }), { code: "unavailable" });
    assert.deepEqual(asked, [0]);
    const other = setup(failing("ECONNRESET"), ok);
    assert.deepEqual(await other.ask(), { ok: true });
  });

  test("everybody is asked once, and the last failure is told", async () => {
    const { asked, ask } = setup(failing("ECONNREFUSED"), failing("ECONNREFUSED"));
    await assert.rejects(ask(), (error) => {
      return error instanceof CodeqError && error.message.includes("node-1");
    });
    assert.deepEqual(asked, [0, 1]);
  });

  test("events are followed at the next one when one cannot be reached", async () => {
    const { asked, follow } = setup(failing("ECONNREFUSED"), failing("ECONNRESET"), telling);
    assert.deepEqual(await follow(), ["created"]);
    assert.deepEqual(asked, [0, 1, 2]);
    const nowhere = setup(failing("ECONNREFUSED"), failing("ECONNREFUSED"));
    await assert.rejects(nowhere.follow(), { name: "CodeqError", code: "unavailable" });
    assert.deepEqual(nowhere.asked, [0, 1]);
  });

  test("events that break off are told to the caller, who finds the next one", async () => {
    const { asked, follow } = setup(breaking, telling);
    await assert.rejects(follow(), { name: "CodeqError", code: "unavailable" });
    assert.deepEqual(asked, [0]);
    assert.deepEqual(await follow(), ["created"]);
    assert.deepEqual(asked, [0, 1]);
  });

  test("a refusal is an answer", async () => {
    const refusing: Answer = () => Promise.resolve(new Response("{}", { status: 404 }));
    const { asked, ask } = setup(refusing, ok);
    await assert.rejects(ask());
    assert.deepEqual(asked, [0]);
  });
});
