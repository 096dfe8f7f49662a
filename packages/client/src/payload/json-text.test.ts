import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { JsonText, outputFromJson, outputToJson } from "./json-text.ts";

test("the text of a JSON object is kept as it is, and anything else is refused", () => {
  const text = ' { "n": 12345678901234567890, "n": 1.0 } ';
  assert.equal(new JsonText(text).text, text);
  for (const wrong of ["", "[]", "null", "5", '"{}"', "{", "{}{}"]) {
    assert.throws(() => new JsonText(wrong), { code: "invalid_output" }, wrong);
  }
});

test("every output comes back as JSON would bring it back", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (output) => {
      const json = outputToJson(output);
      assert.deepEqual(outputFromJson(json), JSON.parse(JSON.stringify(output)));
      const stored = JSON.parse(json) as unknown;
      assert.ok(typeof stored === "object" && stored !== null && !Array.isArray(stored));
      // The server does not give back an empty object.
      assert.notEqual(json, "{}");
    }),
  );
});

test("an object is stored as it is, for clients of any make", () => {
  assert.equal(outputToJson({ url: "cat.png" }), '{"url":"cat.png"}');
});

test("what could be mistaken for something else is not", () => {
  for (const output of [{}, { $value: 1 }, { $value: { $value: 2 } }, [], null, 0, "", false]) {
    assert.deepEqual(outputFromJson(outputToJson(output)), output);
  }
  assert.equal(outputToJson(undefined), "");
  assert.equal(outputFromJson(""), undefined);
  assert.equal(outputFromJson("{}"), undefined);
});
