import assert from "node:assert/strict";
import { test } from "node:test";
import { isJson, parseExact, prettyJson } from "./payload.ts";

test("numbers keep the digits they were written with", () => {
  const text = '{"big":12345678901234567890,"small":1.10,"list":[1e400,-0]}';
  assert.equal(JSON.stringify(parseExact(text)), text);
  assert.equal(prettyJson('{"n":12345678901234567890}'), '{\n  "n": 12345678901234567890\n}');
});

test("text that is not JSON stays as it is", () => {
  assert.equal(prettyJson("plain"), "plain");
  assert.equal(isJson("plain"), false);
  assert.equal(isJson('"quoted"'), true);
});
