import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { systemClock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { HttpPages } from "./http-pages.ts";

test("of many requests in a packet the first is answered, and the others are not parsed", async (t) => {
  let shown = 0;
  const logger = createLogger({ level: "error", format: "text", nowMs: () => 0, write: () => {} });
  const show = () => {
    shown += 1;
    return { status: 200, type: "text/plain", body: "page" };
  };
  const parts = { pages: [{ path: "/page", show }], endpoints: { port: 1 }, logger };
  const server = createServer();
  new HttpPages(parts, systemClock).watch(server, false);
  t.after(() => server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.write("GET /page HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000));
  assert.match(await text(socket), /^HTTP\/1\.1 200 OK.*page$/s);
  assert.equal(shown, 1);
});
