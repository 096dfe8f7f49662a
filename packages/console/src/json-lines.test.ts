import assert from "node:assert/strict";
import test from "node:test";
import { isRounded, jsonLines, jsonProblem, rawMember } from "./json-lines.ts";

const shown = (json: string): string[] =>
  jsonLines(json).map(
    ({ depth, pieces }) => " ".repeat(depth) + pieces.map(({ text }) => text).join(""),
  );

test("objects and lists are opened line by line, empty ones stay closed", () => {
  assert.deepEqual(shown('{"a":1,"b":{"c":[],"d":["x",{}]},"e":null}'), [
    "{",
    ' "a": 1,',
    ' "b": {',
    '  "c": [],',
    '  "d": [',
    '   "x",',
    "   {}",
    "  ]",
    " },",
    ' "e": null',
    "}",
  ]);
});

test("numbers stay as they were sent, and those that JavaScript would change are marked", () => {
  const json = '{"id":9007199254740993,"total":18250.40,"big":1e400}';
  const pieces = jsonLines(json).flatMap((line) => line.pieces);
  const numbers = pieces.filter(({ kind }) => kind === "number");
  assert.deepEqual(
    numbers.map(({ text, isExact }) => [text, isExact === true]),
    [
      ["9007199254740993", true],
      ["18250.40", false],
      ["1e400", true],
    ],
  );
  assert.ok(!isRounded("-0.10") && !isRounded("100") && !isRounded("1E2") && !isRounded("0.0"));
});

test("what is no JSON is shown as it is", () => {
  assert.deepEqual(shown("a < b\n<script>"), ["a < b", "<script>"]);
  assert.match(jsonProblem('{"a":}') ?? "", /^Not valid JSON: /);
  assert.equal(jsonProblem(" "), "Empty: JSON is required");
  assert.equal(jsonProblem("[1]"), undefined);
});

test("a long text is cut, and so is a list without end", () => {
  const [line] = jsonLines(JSON.stringify("x".repeat(1_000_000)));
  assert.ok((line?.pieces[0]?.text.length ?? 0) < 2010);
  assert.ok(jsonLines(JSON.stringify(Array.from({ length: 100_000 }, () => 1))).length <= 5001);
});

test("a member is found in the text as it was sent", () => {
  const json =
    '{"task":{"payload":"{\\"result\\":1}"},"result":{"status":"COMPLETED","result":{"n":1.0}}}';
  assert.equal(rawMember(json, ["result", "result"]), '{"n":1.0}');
  assert.equal(rawMember(json, ["result", "missing"]), undefined);
});
