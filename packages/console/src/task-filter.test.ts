import assert from "node:assert/strict";
import test from "node:test";
import { completions, filterQuery, parseFilter, showFilter } from "./task-filter.ts";

const nowMs = Date.UTC(2026, 4, 14, 14, 0, 0);

test("a filter becomes the query of the API", () => {
  const tokens = parseFilter(
    'state:dead queue:send-email error:"421 \\"x\\"" payload.customer.id:42',
  );
  assert.deepEqual(filterQuery(tokens, nowMs).query, {
    place: "dead",
    command: "send-email",
    error: '421 "x"',
    payload: "customer.id:42",
  });
});

test("what is shown reads the same again", () => {
  const text = 'queue:a error:"two words" payload.x:"a \\\\ b" created:1h';
  assert.equal(showFilter(parseFilter(text)), text);
});

test("words without a key look for an id or an error", () => {
  assert.deepEqual(parseFilter('7f3a91c2 Timeout "font server"'), [
    { key: "id", value: "7f3a91c2" },
    { key: "error", value: "Timeout" },
    { key: "error", value: "font server" },
  ]);
});

test("spans of time end now", () => {
  const { query } = filterQuery(parseFilter("created:1h"), nowMs);
  assert.deepEqual(query, { createdAfter: "2026-05-14T13:00:00.000Z" });
  assert.match(filterQuery(parseFilter("ended:soon"), nowMs).problem ?? "", /no time span/);
});

test("what cannot be asked for is said", () => {
  assert.match(filterQuery(parseFilter("colour:red"), nowMs).problem ?? "", /no filter "colour:"/);
  assert.match(filterQuery(parseFilter("id:abcd id:ef01"), nowMs).problem ?? "", /one "id:" only/);
});

test("keys are completed first, then their values", () => {
  assert.deepEqual(
    completions("st", {}).map(({ text }) => text),
    ["state:"],
  );
  assert.deepEqual(
    completions("state:de", {}).map(({ text }) => text),
    ["state:delayed", "state:leased", "state:dead"].filter((text) => text.includes("de")),
  );
  assert.deepEqual(
    completions("queue:mail", { queue: ["send-email", "resize"] })[0]?.text,
    "queue:send-email",
  );
});
