/** JSON.parse is the oracle: of what is JSON, of values, and of which member counts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { CreateApiKeyBody, CreateBatchBody, CreateBody, ResultBody } from "./bodies.ts";
import {
  flag,
  integer,
  list,
  misfit,
  nonEmptyList,
  nonEmptyText,
  object,
  rawObject,
  rawValue,
  readBody,
  text,
} from "./json-body.ts";

const Item = object({ id: nonEmptyText, on: flag });
const Body = object({
  name: text,
  count: integer,
  payload: rawValue,
  result: rawObject,
  items: list(Item),
  more: nonEmptyList(Item),
});

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Expected = { readonly fits: boolean; readonly value?: unknown };

const none: Expected = { fits: true, value: undefined };
const wrong: Expected = { fits: false };

function isObject(value: unknown): value is Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a parsed value should become; raw values are compared by what they parse to. */
const expectations: Record<string, (value: Json) => Expected> = {
  name: (value) =>
    value === null ? none : typeof value === "string" ? { fits: true, value } : wrong,
  count: (value) =>
    value === null ? none : Number.isInteger(value) ? { fits: true, value } : wrong,
  payload: (value) => ({ fits: true, value }),
  result: (value) => (value === null ? none : isObject(value) ? { fits: true, value } : wrong),
  items: (value) => (value === null ? none : expectedItems(value)),
  more: (value) => (Array.isArray(value) && value.length > 0 ? expectedItems(value) : wrong),
};

function expectedItems(value: Json): Expected {
  if (!Array.isArray(value)) return wrong;
  const fits = value.every(
    (each) =>
      isObject(each) &&
      typeof each["id"] === "string" &&
      each["id"] !== "" &&
      (each["on"] === undefined || each["on"] === null || typeof each["on"] === "boolean"),
  );
  if (!fits) return wrong;
  const items = (value as Record<string, Json>[]).map(({ id, on }) =>
    on === undefined ? { id } : { id, on: on ?? undefined },
  );
  return { fits, value: items };
}

function expectedBody(source: string): Expected {
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch {
    return wrong;
  }
  if (!isObject(value) || !Object.hasOwn(value, "more")) return wrong;
  const found: Record<string, unknown> = {};
  for (const [name, each] of Object.entries(value)) {
    const expected = Object.hasOwn(expectations, name) ? expectations[name]?.(each) : undefined;
    if (expected === undefined) continue;
    if (!expected.fits) return wrong;
    found[name] = expected.value;
  }
  return { fits: true, value: found };
}

function assertAgreed(source: string): void {
  const expected = expectedBody(source);
  const body = readBody(source, Body);
  if (body === misfit) {
    assert.equal(expected.fits, false, source);
    return;
  }
  assert.ok(expected.fits, source);
  const { payload, result, ...others } = body;
  for (const raw of [payload, result]) if (raw !== undefined) assert.ok(source.includes(raw));
  const parsed = {
    ...others,
    ...("payload" in body ? { payload: JSON.parse(payload as string) } : {}),
    ...("result" in body ? { result: result === undefined ? result : JSON.parse(result) } : {}),
  };
  assert.deepEqual(parsed, expected.value, source);
}

const anything = fc.jsonValue({ maxDepth: 3 });
const itemIn = fc.oneof(
  { weight: 5, arbitrary: fc.record({ id: fc.string({ minLength: 1 }), on: fc.boolean() }) },
  fc.record({ id: anything, on: anything, x: anything }, { requiredKeys: [] }),
);
const likely = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 6, arbitrary }, anything);
const members = {
  name: likely(fc.string({ unit: "binary" })),
  count: likely(fc.integer()),
  payload: anything,
  result: likely(fc.dictionary(fc.string(), anything)),
  items: likely(fc.array(itemIn)),
  other: anything,
  constructor: anything,
};
const documents = fc.oneof(
  anything,
  fc.record(
    { ...members, more: likely(fc.array(itemIn, { minLength: 1 })) },
    { requiredKeys: ["more"] },
  ),
);
/** Beyond where strings share the text they came from, and not. */
const spaces = fc.constantFrom("", " ".repeat(3000));

test("what the shape names is read as a parser reads it, and the rest is passed over", () => {
  fc.assert(
    fc.property(documents, fc.constantFrom(0, 2), spaces, (value, indent, space) => {
      assertAgreed(space + JSON.stringify(value, null, indent) + space);
    }),
    { numRuns: 3000 },
  );
});

test("text with letters changed, missing or added is judged as a parser judges it", () => {
  const letters = fc.constantFrom(...'{}[]",:0123456789.eE+-truefalsn \\u/\t\n\u0001é');
  fc.assert(
    fc.property(documents, fc.nat(), letters, fc.nat(2), (value, place, letter, cut) => {
      const whole = JSON.stringify(value);
      const at = place % (whole.length + 1);
      assertAgreed(whole.slice(0, at) + letter + whole.slice(at + cut));
      assertAgreed(whole.slice(0, at));
    }),
    { numRuns: 5000 },
  );
});

test("members in any order and number are judged by the last of each name", () => {
  const names = fc.constantFrom("name", "n\\u0061me", "count", "payload", "result", "more", "x");
  const values = fc.constantFrom(
    ...['"a"', "1", "1.5", "1e2", "-0", "null", "true", "{}", "[]", '[{"id":"a"}]', '""', "1e999"],
    ...["01", "{", '"\\u00"', "nul"],
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(names, values), { maxLength: 6 }), (pairs) => {
      const written = [["more", '[{"id":"a"}]'], ...pairs].map(([n, v]) => `"${n}" : ${v}`);
      assertAgreed(`{${written.join(" , ")}}`);
    }),
    { numRuns: 5000 },
  );
});

test("payloads and results are kept letter by letter", () => {
  const blank = fc.constantFrom("", " ", "\n\t ");
  const raws = fc.oneof(
    fc.jsonValue().map((value) => JSON.stringify(value)),
    fc.constantFrom("12345678901234567890", "1.0e+5", '{ "b" : 1 , "a":[ ] }', '"\\u0061é\\/"'),
  );
  fc.assert(
    fc.property(raws, blank, blank, spaces, (raw, before, after, space) => {
      const source = `{"command":"c",${space}"payload":${before}${raw}${after}}`;
      assert.deepEqual(readBody(source, CreateBody), { command: "c", payload: raw });
      const batch = `{"tasks":[{"payload":${before}${raw}${after}},${space}{"payload":1}]}`;
      const expected = { tasks: [{ payload: raw }, { payload: "1" }] };
      assert.deepEqual(readBody(batch, CreateBatchBody), expected);
      const result = `{"status":"s","result":${before}{"a":${raw}}${after}}`;
      assert.deepEqual(readBody(result, ResultBody), { status: "s", result: `{"a":${raw}}` });
    }),
    { numRuns: 1000 },
  );
});

test("of duplicate names the last one counts, also when it is written with escapes", () => {
  const source = '{"command":"a","comm\\u0061nd":"b","payload":1,"payload":null}';
  assert.deepEqual(readBody(source, CreateBody), { command: "b", payload: "null" });
  assert.deepEqual(readBody('{"command":7,"command":"b"}', CreateBody), { command: "b" });
  assert.equal(readBody('{"command":"b","command":7}', CreateBody), misfit);
});

test("names of prototypes are names", () => {
  const source = '{"__proto__":{"priority":1},"constructor":1,"command":"a"}';
  const body = readBody(source, CreateBody);
  assert.deepEqual(body, { command: "a" });
  assert.equal(Object.getPrototypeOf(body), Object.prototype);
});

test("a member that a closed shape does not name is refused, however long the body is", () => {
  const long = "x".repeat(20_000);
  assert.deepEqual(readBody(`{"name":"${long}"}`, CreateApiKeyBody), { name: long });
  assert.equal(readBody('{"name":"a","admin":true}', CreateApiKeyBody), misfit);
  assert.equal(readBody(`{"name":"${long}","admin":true}`, CreateApiKeyBody), misfit);
  assert.equal(readBody('{"name":"a","__proto__":true}', CreateApiKeyBody), misfit);
});

test("nesting costs what its letters cost, and batches end beyond what any may have", () => {
  const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
  const body = readBody(`{"command":"c","payload":${deep},"other":${deep}}`, CreateBody);
  assert.deepEqual(body, { command: "c", payload: deep });
  assert.equal(readBody(`{"command":"c","payload":${deep}]}`, CreateBody), misfit);
  const many = Array.from({ length: 150_000 }, () => "{}").join(",");
  const batch = readBody(`{"tasks":[${many}]}`, CreateBatchBody);
  assert.ok(batch !== misfit);
  assert.equal(batch.tasks.length, 100_001);
});
