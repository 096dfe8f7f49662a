/** JSON.parse is the oracle: both must agree on what is JSON. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parsesAsJson } from "../../test/parses-as-json.ts";
import { endOfValue, isJson, isOneValue } from "./json-scan.ts";

function assertAgreed(text: string): void {
  assert.equal(isOneValue(text), parsesAsJson(text), JSON.stringify(text));
}

test("scalars, containers and spaces are JSON exactly when a parser says so", () => {
  const texts = [
    ...["", " ", "0", "-0", "-", "01", "1.", ".5", "1.5", "1e5", "1E+5", "1e-", "1e", "1.e5", "+1"],
    ...["true", "false", "null", "tru", "nulll", "True", "NaN", "Infinity", "undefined", "0x10"],
    ...['""', '"', '"a', '"\\"', '"\\\\"', '"\\u00e9"', '"\\u00g9"', '"\\u12"', '"\\x"', '"\t"'],
    ...['"\\ud800"', '"\u007f"', '"\u2028"', "'a'", '"\\/\\b\\f\\n\\r\\t"', '"\u0000"'],
    ...["[]", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1,2]", "[[]]", "[[]", "[]]", "[1 2]"],
    ...["{}", "{", "}", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{a:1}", '{"a" : 1 }'],
    ...['{"a":1,"a":2}', '{"a":{}}', '{"a":[}]}', '{"a":1 "b":2}', "{1:2}", '{"a",1}', "[{]}"],
    ...[" [ 1 , 2 ] ", "\t{\n}\r", "\u00a01", "\ufeff1", "1 2", "[] []", "\v1", '{"a":"}"}'],
  ];
  for (const text of texts) assertAgreed(text);
});

test("any JSON is found to be JSON, with any spaces", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 1, 3), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      assert.ok(isOneValue(text));
      assert.equal(endOfValue(`xx${text}]`, 2), 2 + text.length);
    }),
  );
});

test("JSON with a letter changed, missing or added is judged as a parser judges it", () => {
  const letters = fc.constantFrom(...'{}[]",:0123456789.eE+-truefalsn \\u/\t\n\u0001é');
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(), letters, fc.nat(2), (value, place, letter, cut) => {
      const text = JSON.stringify(value);
      const at = place % (text.length + 1);
      assertAgreed(text.slice(0, at) + letter + text.slice(at + cut));
      assertAgreed(text.slice(0, at));
    }),
    { numRuns: 2000 },
  );
});

test("text made of the letters of JSON is judged as a parser judges it", () => {
  const pieces = fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', "1", " ", "null", '"', "\\");
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => assertAgreed(parts.join(""))),
    { numRuns: 5000 },
  );
});

test("nesting may be as deep as the text is long", () => {
  const depth = 1_000_000;
  assert.ok(isOneValue("[".repeat(depth) + "]".repeat(depth)));
  assert.ok(isOneValue(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`));
  assert.ok(!isOneValue("[".repeat(depth) + "]".repeat(depth - 1)));
  assert.ok(!isOneValue(`${"[".repeat(depth)}}${"]".repeat(depth - 1)}`));
});

test("a text is judged alike whether it is short enough to be built or not", () => {
  for (const length of [1, 8190, 8191, 20_000]) {
    const text = "x".repeat(length);
    assert.ok(isJson(`"${text}"`), String(length));
    assert.ok(!isJson(`"${text}`), String(length));
    assert.ok(!isJson(`"${text}" 1`), String(length));
  }
});
