import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import type { AddressInfo, LookupFunction } from "node:net";
import test, { type TestContext } from "node:test";
import { createLookup } from "./lookup.ts";

/** A name server that answers what it is told to, or nothing. */
async function nameServer(
  t: TestContext,
  answer: (query: Buffer) => Buffer | undefined,
): Promise<{ readonly address: string; readonly asked: () => number }> {
  const socket = createSocket("udp4");
  let asked = 0;
  socket.on("message", (query, { port, address }) => {
    asked += 1;
    const reply = answer(query);
    if (reply !== undefined) socket.send(reply, port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  t.after(() => socket.close());
  return { address: `127.0.0.1:${(socket.address() as AddressInfo).port}`, asked: () => asked };
}

/** The question again, with one address for A and none for AAAA. */
function answerWith(...ipv4: readonly number[]): (query: Buffer) => Buffer {
  return (query) => {
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const isA = question.readUInt16BE(question.length - 4) === 1;
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...ipv4]);
    const head = Buffer.from([
      query[0] ?? 0,
      query[1] ?? 0,
      0x81,
      0x80,
      0,
      1,
      0,
      isA ? 1 : 0,
      0,
      0,
      0,
      0,
    ]);
    return Buffer.concat([head, question, ...(isA ? [record] : [])]);
  };
}

function ask(lookup: LookupFunction, name: string): Promise<string> {
  return new Promise((resolve) => {
    lookup(name, { all: true }, (error, found) => {
      const addresses = Array.isArray(found) ? found.map(({ address }) => address) : [found];
      resolve(error === null ? addresses.join(" ") : `${error.code ?? error.message}`);
    });
  });
}

test("a name is looked up, and only addresses that are allowed are handed on", async (t) => {
  const { address } = await nameServer(t, answerWith(192, 0, 2, 7));
  const servers = [address];
  const all = createLookup({ isAllowed: () => true, servers });
  assert.equal(await ask(all, "hooks.example"), "192.0.2.7");
  const none = createLookup({ isAllowed: () => false, servers });
  assert.match(
    await ask(none, "hooks.example"),
    /^hooks\.example is a loopback or private address/,
  );
});

test("a name server that is silent takes no thread and ends with an error", async (t) => {
  const { address, asked } = await nameServer(t, () => undefined);
  const lookup = createLookup({ isAllowed: () => true, servers: [address] });
  const names = Array.from({ length: 50 }, (_, n) => ask(lookup, `hooks-${n}.example`));
  assert.deepEqual(new Set(await Promise.all(names)), new Set(["ETIMEOUT"]));
  assert.ok(asked() >= 50);
});

test("names of this machine are known without a name server, however many ask", async () => {
  const lookup = createLookup({ isAllowed: () => true, servers: ["127.0.0.1:1"] });
  const names = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? "localhost" : `no-host-${n}`));
  const found = await Promise.all(names.map((name) => ask(lookup, name)));
  for (const [n, each] of found.entries()) {
    assert.match(each, n % 2 === 0 ? /127\.0\.0\.1|::1/ : /ENOTFOUND|EAI_AGAIN/);
  }
});
