/** JSON.parse is the oracle: what is recognised must be JSON. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parsesAsJson } from "../../test/parses-as-json.ts";
import { isPlainJson } from "./plain-json.ts";

function isPlain(text: string): boolean {
  return isPlainJson(Buffer.from(text));
}

test("usual payloads are recognised", () => {
  const texts = [
    ...["{}", "[]", "null", "true", "false", "0", "-1", "12.50", '""', ' { "a" : [ 1 , 2 ] } \n'],
    ...[
      '{"a":{"b":[{},[],[[]],null]},"c":"x \\"y\\" \\\\ \\n"}',
      '{"ok":true}',
      '[{"a":1},{"b":-0.5}]',
    ],
    ...[`${"[".repeat(30)}${"]".repeat(30)}`],
  ];
  for (const text of texts) assert.ok(isPlain(text), text);
});

test("the rest is left to others: other letters, deep nesting, exponents, escapes by number", () => {
  const texts = ['"é"', '"\\u00e9"', "1e5", `${"[".repeat(31)}${"]".repeat(31)}`];
  for (const text of texts) assert.ok(!isPlain(text) && parsesAsJson(text), text);
  assert.equal(isPlainJson('{"a":1}'), false);
});

test("what is not JSON is never recognised", () => {
  const texts = [
    ...[
      "",
      " ",
      "-",
      "01",
      "1.",
      ".5",
      "+1",
      "tru",
      "nulll",
      "fals",
      "xalse",
      "fxlse",
      "{",
      "[",
      "]",
      "}",
    ],
    ...["[1", "[1,", "[1,]", "[,1]", "[1 2]", "[]]", '{"a"', '{"a":', '{"a":1,}', "{a:1}", "{1:2}"],
    ...['{"a",1}', "[{]}", '{"a":[}]}', '{"a":1 "b":2}', '"', '"a', '"\\"', '"\\x"', '"\t"', "1 2"],
    ...['{{"a":1}:2}', "{[]:1}", "{}{}", '{"a":1]', "[1}", "{,}", '{"a"}', '{"a"::1}', "\u00a01"],
  ];
  for (const text of texts) assert.ok(!isPlain(text), text);
});

test("JSON with a letter changed, missing or added is recognised only where a parser agrees", () => {
  const letters = fc.constantFrom(...'{}[]",:0123456789.eE+-truefalsn \\u/\t\n\u0001é');
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(), letters, fc.nat(2), (value, place, letter, cut) => {
      const whole = JSON.stringify(value);
      const at = place % (whole.length + 1);
      for (const text of [
        whole,
        whole.slice(0, at),
        whole.slice(0, at) + letter + whole.slice(at + cut),
      ]) {
        if (isPlain(text)) assert.ok(parsesAsJson(text), text);
      }
    }),
    { numRuns: 5000 },
  );
});

test("text made of the letters of JSON is recognised only where a parser agrees", () => {
  const pieces = fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', "1", " ", "null", '"', "\\");
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
      const text = parts.join("");
      if (isPlain(text)) assert.ok(parsesAsJson(text), text);
    }),
    { numRuns: 20_000 },
  );
});
