import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { systemClock } from "../clock.ts";
import { HttpApi } from "./http-api.ts";

interface Node {
  readonly url: URL;
  readonly heard: { readonly headers: IncomingHttpHeaders; readonly body: string }[];
}

/** Two servers: the first sends everything to the second. */
async function setup(t: { after(run: () => void): void }): Promise<{ first: Node; second: Node }> {
  const listen = async (location: () => string | undefined): Promise<Node> => {
    const heard: Node["heard"] = [];
    const server: Server = createServer(async (request, reply) => {
      let body = "";
      for await (const piece of request) body += String(piece);
      heard.push({ headers: request.headers, body });
      const to = location();
      if (to !== undefined) reply.writeHead(307, { location: `${to}${request.url}` });
      reply.end(JSON.stringify({ error: "not leader" }));
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    t.after(() => void server.close());
    const { port } = server.address() as AddressInfo;
    return { url: new URL(`http://127.0.0.1:${port}`), heard };
  };
  const second = await listen(() => undefined);
  const first = await listen(() => second.url.origin);
  return { first, second };
}

const request = {
  method: "POST",
  path: "/tasks",
  token: "secret",
  body: "{}",
  signal: new AbortController().signal,
} as const;

test("a redirect to a configured server is followed, with the token and the body", async (t) => {
  const { first, second } = await setup(t);
  const servers = [first.url, second.url];
  const api = new HttpApi({ url: first.url, servers, clock: systemClock });
  await api.ask(request);
  assert.equal(second.heard[0]?.headers.authorization, "Bearer secret");
  assert.equal(second.heard[0]?.body, "{}");
});

test("a redirect to any other server is told, and nothing is sent there", async (t) => {
  const { first, second } = await setup(t);
  const api = new HttpApi({ url: first.url, clock: systemClock });
  await assert.rejects(api.ask(request), /which is not among the configured URLs/);
  assert.equal(second.heard.length, 0);
});

test("servers that send each other around are given up", async (t) => {
  const { first } = await setup(t);
  const around = new HttpApi({
    url: first.url,
    clock: systemClock,
    fetch: (async () =>
      new Response("{}", { status: 307, headers: { location: "/again" } })) as typeof fetch,
  });
  await assert.rejects(around.ask(request), /the server redirects to/);
});

test("a server that takes a request and does not answer is told apart from one that is not there", async () => {
  const after = (_: number, run: () => void): (() => void) => {
    run();
    return () => {};
  };
  const clock = { ...systemClock, after };
  const silent: typeof fetch = (_, init) =>
    new Promise((_resolve, reject) => {
      const { signal } = init ?? {};
      if (signal?.aborted === true) reject(signal.reason);
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  const api = new HttpApi({ url: new URL("http://127.0.0.1:1"), clock, fetch: silent });
  await assert.rejects(
    api.ask(request),
    /no answer within 30 s; the server may hang, or a firewall/,
  );
});
