/** JSON.parse is the oracle: of what is JSON, of values, and of which member counts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as api from "@codeq/protocol/api";
import fc from "fast-check";
import * as contract from "./contract/contract-route.ts";
import { readBody, type ValueReader } from "./json-body.ts";

function bodyOf<S extends api.Shape>(shape: S): ValueReader<api.KeptOf<S>> {
  return contract.bodyOf(shape) as ValueReader<api.KeptOf<S>>;
}

const AbandonBody = bodyOf(api.AbandonBody);
const ClaimBatchBody = bodyOf(api.ClaimBatchBody);
const ClaimBody = bodyOf(api.ClaimBody);
const CreateApiKeyBody = bodyOf(api.CreateApiKeyBody);
const CreateBatchBody = bodyOf(api.CreateBatchBody);
const CreateBody = bodyOf(api.CreateBody);
const NackBody = bodyOf(api.NackBody);
const ResultBody = bodyOf(api.ResultBody);

const isOptional = { isOptional: true } as const;
const Item = api.object({ id: api.text("", { isFilled: true }), on: api.flag("", isOptional) });
const Body = bodyOf(
  api.object({
    name: api.text("", isOptional),
    count: api.whole("", isOptional),
    payload: api.raw("", isOptional),
    result: api.raw("", { isObject: true, isOptional: true }),
    items: api.list(Item, "", isOptional),
    more: api.list(Item, "", { isFilled: true }),
  }),
);

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
  const read = readBody(source, Body, true);
  if (!read.ok) {
    assert.equal(expected.fits, false, source);
    return;
  }
  assert.ok(expected.fits, source);
  const body = read.value;
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

function valueIn<T>(source: string, shape: ValueReader<T>): T {
  const read = readBody(source, shape);
  assert.ok(read.ok, source);
  return read.value;
}

function why(source: string, shape: ValueReader<unknown>, isLenient = false): string {
  const read = readBody(source, shape, isLenient);
  assert.ok(!read.ok, source);
  return read.why;
}

test("payloads and results are kept letter by letter", () => {
  const blank = fc.constantFrom("", " ", "\n\t ");
  const raws = fc.oneof(
    fc
      .jsonValue()
      .filter((value) => value !== null)
      .map((value) => JSON.stringify(value)),
    fc.constantFrom("12345678901234567890", "1.0e+5", '{ "b" : 1 , "a":[ ] }', '"\\u0061é\\/"'),
  );
  fc.assert(
    fc.property(raws, blank, blank, spaces, (raw, before, after, space) => {
      const source = `{"command":"c",${space}"payload":${before}${raw}${after}}`;
      assert.deepEqual(valueIn(source, CreateBody), { command: "c", payload: raw });
      const batch = `{"tasks":[{"payload":${before}${raw}${after}},${space}{"payload":1}]}`;
      const expected = { tasks: [{ payload: raw }, { payload: "1" }] };
      assert.deepEqual(valueIn(batch, CreateBatchBody), expected);
      const result = `{"status":"s","result":${before}{"a":${raw}}${after}}`;
      assert.deepEqual(valueIn(result, ResultBody), { status: "s", result: `{"a":${raw}}` });
    }),
    { numRuns: 1000 },
  );
});

test("of duplicate names the last one counts, also when it is written with escapes", () => {
  const source = '{"command":"a","comm\\u0061nd":"b","payload":null,"payload":1}';
  assert.deepEqual(valueIn(source, CreateBody), { command: "b", payload: "1" });
  assert.deepEqual(valueIn('{"reason":7,"reason":"b"}', NackBody), { reason: "b" });
  const none = '{"command":"a","payload":1,"payload":null}';
  assert.equal(why(none, CreateBody), "payload must be a value other than null, got null");
  const changed = '{"command":"b","command":7}';
  assert.equal(why(changed, CreateBody), "command must be a string, got 7");
});

test("names of prototypes are names", () => {
  const source = '{"__proto__":{"priority":1},"constructor":1,"command":"a","payload":1}';
  const read = readBody(source, CreateBody, true);
  assert.ok(read.ok);
  assert.deepEqual(read.value, { command: "a", payload: "1" });
  assert.equal(Object.getPrototypeOf(read.value), Object.prototype);
  assert.match(why(source, CreateBody), /^unknown field "__proto__"/);
});

test("a field that is not known is named, with the one that was probably meant", () => {
  const create = '{"command":"a","payload":{"any":1},"dealySeconds":5}';
  const meant = 'unknown field "dealySeconds"; did you mean "delaySeconds"?';
  assert.equal(why(create, CreateBody), meant);
  assert.equal(
    why('{"command":"x"}', ClaimBody),
    'unknown field "command"; did you mean "commands"?',
  );
  const batch = '{"tasks":[{},{"dealySeconds":1}]}';
  const inside = 'unknown field "dealySeconds" in tasks[1]; did you mean "delaySeconds"?';
  assert.equal(why(batch, CreateBatchBody), inside);
  const far =
    'unknown field "zzz"; known fields: delaySeconds, reason, stack, holdSeconds, used, leaseToken';
  assert.equal(why('{"zzz":[1,{"limit":2}]}', NackBody), far);
  assert.match(why(`{"${"é".repeat(5000)}":1}`, NackBody), /^unknown field "é{40}…"; known/);
  assert.match(why('{"d\\u0065alySeconds":1}', NackBody), /^unknown field "dealySeconds"; did you/);
});

test("a value of a wrong type is named, with where it stands and what it should be", () => {
  const cases: [string, ValueReader<unknown>, string][] = [
    ['{"delaySeconds":"5"}', NackBody, 'delaySeconds must be a number, got "5"'],
    ['{"leaseToken":1.5}', NackBody, "leaseToken must be a whole number, got 1.5"],
    ['{"delaySeconds":[5]}', NackBody, "delaySeconds must be a number, got [5]"],
    ['{"reason":{"a":1}}', NackBody, 'reason must be a string, got {"a":1}'],
    ['{"interrupted":"yes"}', AbandonBody, 'interrupted must be true or false, got "yes"'],
    ['{"commands":"a"}', ClaimBody, 'commands must be an array, got "a"'],
    ['{"commands":["a",2]}', ClaimBody, "commands[1] must be a string, got 2"],
    ['{"count":0}', ClaimBatchBody, "count must be at least 1, got 0"],
    ["{}", ClaimBatchBody, "count is required"],
    ["{}", CreateBody, "command is required"],
    ['{"command":""}', CreateBody, 'command must be a string that is not empty, got ""'],
    ['{"tasks":[]}', CreateBatchBody, "tasks must be an array that is not empty, got []"],
    ['{"tasks":[{},7]}', CreateBatchBody, "tasks[1] must be an object, got 7"],
    [
      '{"tasks":[{"priority":"x"}]}',
      CreateBatchBody,
      'tasks[0].priority must be a number, got "x"',
    ],
    ['{"status":"a","result":[]}', ResultBody, "result must be an object, got []"],
    [
      '{"status":"a","artifacts":[{"url":7}]}',
      ResultBody,
      "artifacts[0].url must be a string, got 7",
    ],
    ["[1]", NackBody, "it must be an object, got [1]"],
    ["", NackBody, "it is empty; send a JSON object, such as {}"],
    ['{"reason":', NackBody, "it is not JSON: it ends too early"],
    ['{"reason" 7}', NackBody, "it is not JSON: unexpected text at position 10"],
  ];
  for (const [source, shape, expected] of cases) assert.equal(why(source, shape), expected);
  const long = why(`{"delaySeconds":"${"x".repeat(5000)}"}`, NackBody);
  assert.equal(long, `delaySeconds must be a number, got "${"x".repeat(39)}…`);
});

test("a closed shape refuses what it does not name from lenient callers too", () => {
  const long = "x".repeat(20_000);
  assert.deepEqual(valueIn(`{"name":"${long}"}`, CreateApiKeyBody), { name: long });
  for (const source of ['{"name":"a","admin":true}', `{"name":"${long}","__proto__":true}`]) {
    assert.match(why(source, CreateApiKeyBody, true), /^unknown field /);
  }
});

test("nesting costs what its letters cost, and batches end beyond what any may have", () => {
  const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
  const source = `{"command":"c","payload":${deep},"other":${deep}}`;
  const expected = { ok: true, value: { command: "c", payload: deep } };
  assert.deepEqual(readBody(source, CreateBody, true), expected);
  assert.equal(why(`{"command":"c","payload":${deep}]}`, CreateBody), "it is not JSON");
  const many = Array.from({ length: 150_000 }, () => "{}").join(",");
  assert.equal(valueIn(`{"tasks":[${many}]}`, CreateBatchBody).tasks.length, 100_001);
});
