/** Every word of a shape, from a request to the input of an operation, and from its output to the answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  count,
  decimal,
  either,
  endpoints,
  flag,
  instant,
  like,
  list,
  mapOf,
  object,
  only,
  raw,
  text,
  whole,
} from "@codeq/protocol/api";
import { Timestamps } from "../../../core/timestamps.ts";
import { bind } from "../../bind.ts";
import type { Call, Server } from "../../operation.ts";
import { readBody } from "../json-body.ts";
import { JsonCodec } from "../json-codec.ts";
import { problemOfQuery } from "../query.ts";
import type { AnyRoute, HttpRequest } from "../route.ts";
import { contractRoutes } from "./contract-route.ts";
import { answerSchemas } from "./contract-schema.ts";

const Inner = object(
  { by: text(), until: instant("", { none: 0 }), reason: text("", { none: "" }) },
  { name: "Inner", about: "Something inside." },
);
const Thing = object(
  {
    id: text("", { as: "thingId" }),
    at: instant(),
    payload: raw(),
    parts: mapOf(count()),
    share: decimal("", { isOptional: true }),
    isOpen: flag(),
    ok: only(true),
    asks: either([list(text()), only("all")]),
    inner: like(Inner, "Who did it.", { isOptional: true }),
    inners: list(Inner),
  },
  { name: "Thing" },
);
const things = endpoints({
  putThing: {
    key: "PUT /things/:id",
    access: "admin",
    summary: "Put a thing",
    params: { id: text("Its id.", { as: "thingId", pattern: /^\w+$/, rule: "letters" }) },
    query: {
      share: decimal("", { none: 0.5, max: 1 }),
      dryRun: flag("", { as: "isDryRun", none: false }),
      since: instant("", { none: 0 }),
    },
    body: object({
      name: text("", { isRequired: true, isLine: true, max: 5 }),
      kind: text("", { oneOf: ["a", "b", "c"], none: "a" }),
      tags: list(text("", { min: 1, max: 3 }), "", { none: [], max: 2 }),
      size: whole("", { isOptional: true, min: 1 }),
      payload: raw("", { isOptional: true }),
      result: raw("", { isObject: true, isOptional: true }),
      all: flag("", { none: false }),
      names: list(text(), "", { isFilled: true }),
      title: text("", { isFilled: true }),
      lease: whole("", { isFilled: true }),
    }),
    replies: {
      200: { about: "The thing.", shape: Thing },
      202: { about: "Accepted.", headers: { "x-mark": "A mark." } },
    },
  },
});

const thing = {
  thingId: "t1",
  atMs: 0,
  payload: '{"a" : 12345678901234567890}',
  parts: { 'x"': 1 },
  isOpen: true,
  ok: true,
  asks: "all",
  inner: { by: "ann", untilMs: 0, reason: "" },
  inners: [{ by: "bob", untilMs: 1000, reason: "because" }],
} as const;

const putThing = bind(things.putThing, {
  run: (_server, _call, input) => ({ ok: true, value: input }),
  show: (input) =>
    input.isDryRun
      ? { status: 202, value: thing, headers: { "x-mark": "1" } }
      : { status: 200, value: thing },
});
const [route] = contractRoutes(things, { putThing }) as [AnyRoute];
const codec = new JsonCodec(new Timestamps("UTC"));
const body = { name: "n", names: ["x"], title: "t", lease: 1 };

function run(sent: object, query: HttpRequest["query"] = {}, id = "t1") {
  const read = readBody(JSON.stringify(sent), route.body ?? assert.fail());
  if (!read.ok) return read.why;
  const input = route.input({ params: { id }, query, headers: {}, body: read.value });
  const answer = route.operation.run({} as Server, {} as Call, input);
  assert.ok(!(answer instanceof Promise));
  return answer.ok ? answer.value : answer.text;
}

test("the input has the names of the server, and a value for everything that has one", () => {
  assert.deepEqual(run(body), {
    thingId: "t1",
    share: 0.5,
    isDryRun: false,
    sinceMs: 0,
    ...body,
    kind: "a",
    tags: [],
    size: undefined,
    payload: undefined,
    result: undefined,
    all: false,
  });
  const sent = { ...body, kind: "", size: null, payload: null, result: { a: [1] }, all: true };
  const query = { share: "1e-1", dryRun: "true", since: "1970-01-01T00:00:01Z" };
  assert.deepEqual(run(sent, query), {
    ...body,
    thingId: "t1",
    share: 0.1,
    isDryRun: true,
    sinceMs: 1000,
    kind: "a",
    tags: [],
    size: undefined,
    payload: "null",
    result: '{"a":[1]}',
    all: true,
  });
});

test("what is beyond its bounds is refused, and the refusal names the bounds", () => {
  assert.equal(run(body, {}, "-"), "invalid 'id' (letters)");
  assert.equal(run(body, { share: "2" }), "invalid 'share' (at most 1)");
  assert.equal(run(body, { since: "yesterday" }), "invalid 'since' (use RFC3339)");
  assert.equal(
    run({ ...body, name: "abcdef" }),
    "invalid 'name' (at most 5 characters on one line)",
  );
  assert.equal(run({ ...body, name: "a\n" }), "invalid 'name' (at most 5 characters on one line)");
  assert.equal(run({ ...body, kind: "d" }), "invalid 'kind' (use a, b or c)");
  assert.equal(run({ ...body, size: 0 }), "invalid 'size' (1 or more)");
  assert.equal(run({ ...body, tags: ["1", "2", "3"] }), "invalid 'tags' (at most 2)");
  assert.equal(run({ ...body, tags: ["1234"] }), "invalid 'tags' (1 to 3 characters)");
});

test("a body that cannot be read is refused before that", () => {
  assert.equal(run({}), "name is required");
  assert.equal(run({ ...body, title: "" }), 'title must be a string that is not empty, got ""');
  assert.equal(run({ ...body, names: [] }), "names must be an array that is not empty, got []");
  assert.equal(run({ ...body, lease: 0 }), "lease must be at least 1, got 0");
  assert.equal(run({ ...body, all: 1 }), "all must be true or false, got 1");
  assert.equal(run({ ...body, result: [] }), "result must be an object, got []");
});

test("a query parameter that is no number or flag is refused", () => {
  const problem = (query: Readonly<Record<string, string>>) =>
    problemOfQuery(route.query ?? {}, query)?.text;
  assert.equal(problem({ share: "x" }), 'share must be a number, got "x"');
  assert.equal(problem({ dryRun: "1" }), 'dryRun must be true or false, got "1"');
  assert.equal(problem({ share: "0.5", dryRun: "false", since: "" }), undefined);
});

test("an answer has the names of the wire, raw JSON as it was written, and leaves out what is missing", () => {
  const request = { params: {}, query: {}, headers: {}, body: undefined };
  const { status, body: shown } = route.reply({ isDryRun: false }, codec, request);
  assert.equal(status, 200);
  assert.equal(
    shown,
    '{"id":"t1","at":"1970-01-01T00:00:00Z","payload":{"a" : 12345678901234567890},"parts":{"x\\"":1},' +
      '"isOpen":true,"ok":true,"asks":"all","inner":{"by":"ann"},' +
      '"inners":[{"by":"bob","until":"1970-01-01T00:00:01Z","reason":"because"}]}',
  );
  const empty = route.reply({ isDryRun: true }, codec, request);
  assert.deepEqual(empty, { status: 202, body: undefined, headers: { "x-mark": "1" } });
});

test("answers are described under their names", () => {
  const { Thing: schema, Inner: inner } = answerSchemas({ things });
  assert.deepEqual(inner?.["required"], ["by"]);
  const ref = "#/components/schemas/Inner";
  assert.deepEqual(schema?.["properties"], {
    id: { type: "string" },
    at: { type: "string", format: "date-time" },
    payload: {},
    parts: { type: "object", additionalProperties: { type: "integer", minimum: 0 } },
    share: { type: "number" },
    isOpen: { type: "boolean" },
    ok: { const: true },
    asks: { oneOf: [{ type: "array", items: { type: "string" } }, { const: "all" }] },
    inner: { $ref: ref, description: "Who did it." },
    inners: { type: "array", items: { $ref: ref, description: "Something inside." } },
  });
  assert.deepEqual(Object.keys(route.replies), ["200", "202"]);
});

test("a body is described with its bounds; null is the same as a missing value", () => {
  const { properties, required } = route.body?.schema ?? {};
  assert.deepEqual(required, ["name", "names", "title", "lease"]);
  assert.deepEqual(properties, {
    name: { type: "string", maxLength: 5 },
    kind: { type: ["string", "null"], enum: ["a", "b", "c", "", null] },
    tags: {
      type: ["array", "null"],
      items: { type: "string", minLength: 1, maxLength: 3 },
      maxItems: 2,
    },
    size: { type: ["integer", "null"], minimum: 1 },
    payload: {},
    result: { type: ["object", "null"] },
    all: { type: ["boolean", "null"] },
    names: { type: "array", items: { type: "string" }, minItems: 1 },
    title: { type: "string", minLength: 1 },
    lease: { type: "integer", minimum: 1 },
  });
});
