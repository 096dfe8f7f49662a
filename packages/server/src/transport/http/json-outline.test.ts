/** JSON.parse is the oracle, for what the schema names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Type } from "@sinclair/typebox";
import fc from "fast-check";
import { CreateBatchBody, CreateBody, ResultBody } from "./bodies.ts";
import { keptAsText, readBody, type Shape, shapeOf } from "./json-outline.ts";
import { elementSpans, memberSpan } from "./json-spans.ts";

/** Longer than what is parsed as a whole. */
const padding = " ".repeat(10_000);

const Body = Type.Object({
  name: Type.Union([Type.String(), Type.Null()]),
  count: Type.Optional(Type.Integer()),
  payload: Type.Unknown(keptAsText),
  free: Type.Unknown(),
  items: Type.Array(Type.Object({ id: Type.String(), on: Type.Boolean() })),
});
const shape = shapeOf(Body);

/** What is left of a value when the shape is all that counts. */
function project(value: unknown, by: Shape): unknown {
  if (by.kind === "whole") return value;
  if (by.kind === "array" && Array.isArray(value))
    return value.map((each) => project(each, by.items));
  if (
    by.kind === "object" &&
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value)
  ) {
    const entries = Object.entries(value).flatMap(([name, each]) => {
      const member = by.members.get(name);
      return member === undefined ? [] : [[name, project(each, member)] as const];
    });
    return Object.fromEntries(entries);
  }
  if (Array.isArray(value)) return [];
  if (typeof value === "object" && value !== null) return {};
  if (by.kind !== "text") return value;
  if (typeof value === "string") return "";
  if (typeof value === "number") return 0;
  return value === null ? null : true;
}

const anything = fc.jsonValue({ maxDepth: 3 });
const documents = fc.oneof(
  anything,
  fc.record(
    {
      name: anything,
      count: anything,
      payload: anything,
      free: anything,
      other: anything,
      items: fc.oneof(anything, fc.array(fc.record({ id: anything, on: anything, x: anything }))),
    },
    { requiredKeys: [] },
  ),
);

test("what the schema names is read as a parser reads it, and nothing else is", () => {
  fc.assert(
    fc.property(documents, fc.constantFrom(0, 2), (value, indent) => {
      const text = JSON.stringify(value, null, indent) + padding;
      // What is written may differ from what was given: -0 is 0.
      assert.deepEqual(readBody(text, shape), project(JSON.parse(text), shape));
    }),
    { numRuns: 1000 },
  );
});

test("damaged text is refused, wherever the damage is", () => {
  const letters = fc.constantFrom(...'{}[]",:019.e-tn \\\u0001');
  fc.assert(
    fc.property(documents, fc.nat(), letters, (value, place, letter) => {
      const whole = JSON.stringify(value);
      const at = place % (whole.length + 1);
      const text = whole.slice(0, at) + letter + whole.slice(at + 1) + padding;
      let parsed: unknown;
      try {
        parsed = project(JSON.parse(text), shape);
      } catch {
        // Not JSON, so there must be no value.
      }
      assert.deepEqual(readBody(text, shape), parsed, text.trim());
    }),
    { numRuns: 2000 },
  );
});

test("of duplicate names the last one counts, also when it is written with escapes", () => {
  const text = `{"name":"a","n\\u0061me":"b","payload":1,"payload":null}${padding}`;
  assert.deepEqual(readBody(text, shape), { name: "b", payload: null });
});

test("names of prototypes are names", () => {
  const text = `{"__proto__":{"name":"x"},"constructor":1,"name":"a"}${padding}`;
  const body = readBody(text, shape) as object;
  assert.deepEqual(body, { name: "a" });
  assert.equal(Object.getPrototypeOf(body), Object.prototype);
});

test("without a shape, and when it is short, a body is read whole", () => {
  const text = '{"x":[1,{"y":2}]}';
  assert.deepEqual(readBody(text, shape), { x: [1, { y: 2 }] });
  assert.deepEqual(readBody(text + padding), { x: [1, { y: 2 }] });
  assert.equal(readBody("", shape), undefined);
  assert.equal(readBody("{", shape), undefined);
});

test("payloads and results are not built, and batches not beyond what any may have", () => {
  const create = shapeOf(CreateBody);
  const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
  assert.deepEqual(readBody(`{"command":"c","payload":${deep}}`, create), {
    command: "c",
    payload: [],
  });
  const result = readBody(`{"status":"s","result":{"a":${deep}}}`, shapeOf(ResultBody));
  assert.deepEqual(result, { status: "s", result: {} });
  const many = Array.from({ length: 150_000 }, () => "{}").join(",");
  const { tasks } = readBody(`{"tasks":[${many}]}`, shapeOf(CreateBatchBody)) as {
    tasks: unknown[];
  };
  assert.equal(tasks.length, 100_001);
});

test("the text of a value is found again as it was written", () => {
  fc.assert(
    fc.property(documents, fc.constantFrom(0, 1), (value, indent) => {
      const text = JSON.stringify(
        { before: 1, "pay\nload": value, list: [value, value] },
        null,
        indent,
      );
      const span = memberSpan(text, 0, "pay\nload");
      assert.deepEqual(
        JSON.parse(text.slice(span?.start, span?.end)),
        JSON.parse(JSON.stringify(value)),
      );
      const list = memberSpan(text, 0, "list");
      const parts = elementSpans(text, list?.start ?? 0);
      assert.equal(parts.length, 2);
      for (const { start, end } of parts) {
        assert.deepEqual(JSON.parse(text.slice(start, end)), JSON.parse(JSON.stringify(value)));
      }
      assert.equal(memberSpan(text, 0, "absent"), undefined);
    }),
  );
});
