import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonText } from "./json-text.ts";

test("the text of a JSON object is kept as it is, and anything else is refused", () => {
  const text = ' { "n": 12345678901234567890, "n": 1.0 } ';
  assert.equal(new JsonText(text).text, text);
  for (const wrong of ["", "[]", "null", "5", '"{}"', "{", "{}{}"]) {
    assert.throws(() => new JsonText(wrong), { code: "invalid_output" }, wrong);
  }
});
