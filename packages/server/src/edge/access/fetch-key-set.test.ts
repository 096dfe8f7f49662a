import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { fetchKeySet } from "./key-set.ts";

async function setup(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys?a=b`;
}

const never = new AbortController().signal;

test("the text is what the server answers with", async (t) => {
  const url = await setup(t, (request, response) => response.end(`{"at":"${request.url}"}é`));
  assert.equal(await fetchKeySet(url, never), '{"at":"/keys?a=b"}é');
});

test("a redirect is not followed", async (t) => {
  let asked = 0;
  const url = await setup(t, (_request, response) => {
    asked += 1;
    response.writeHead(302, { location: "/elsewhere" }).end('{"keys":[]}');
  });
  await assert.rejects(fetchKeySet(url, never), /the answer has the status 302/);
  assert.equal(asked, 1);
});

test("an answer that is no success has no keys, whatever it says", async (t) => {
  const url = await setup(t, (_request, response) => response.writeHead(500).end('{"keys":[]}'));
  await assert.rejects(fetchKeySet(url, never), /the answer has the status 500/);
});

test("an answer that goes on and on is given up at its limit", async (t) => {
  const isCut = Promise.withResolvers<boolean>();
  const url = await setup(t, (_request, response) => {
    response.on("close", () => isCut.resolve(!response.writableFinished));
    let pieces = 0;
    const more = (): void => {
      while (pieces < 1024 && !response.destroyed) {
        pieces += 1;
        if (!response.write(Buffer.alloc(65_536, 32))) {
          response.once("drain", more);
          return;
        }
      }
      response.end();
    };
    more();
  });
  await assert.rejects(fetchKeySet(url, never), /the answer is larger than 1048576 bytes/);
  assert.equal(await isCut.promise, true);
});

test("a fetch that is aborted ends, before the answer and in the middle of it", async (t) => {
  for (const begins of [false, true]) {
    const controller = new AbortController();
    const isCut = Promise.withResolvers<void>();
    const url = await setup(t, (_request, response) => {
      response.on("close", () => isCut.resolve());
      if (begins) response.write("{");
      setImmediate(() => controller.abort());
    });
    await assert.rejects(fetchKeySet(url, controller.signal), { name: "AbortError" });
    await isCut.promise;
  }
});

test("a server that hangs up in the middle of its answer has not answered", async (t) => {
  const url = await setup(t, (_request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write('{"keys":[]}', () => response.destroy());
  });
  await assert.rejects(fetchKeySet(url, never));
});

test("a server that is not there rejects", async (t) => {
  const url = await setup(t, (_request, response) => response.end());
  const dead = url.replace(/:\d+/, ":1");
  await assert.rejects(fetchKeySet(dead, never), { code: "ECONNREFUSED" });
});
