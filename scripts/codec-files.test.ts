import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { codecFiles } from "./codec-files.ts";
import { parseProto } from "./codecs/parse-proto.ts";

const root = join(import.meta.dirname, "..");

for (const [path, text] of codecFiles()) {
  test(`${path} is what the .proto files say; if not, run npm run gen`, () => {
    assert.equal(readFileSync(join(root, path), "utf8"), text);
  });
}

test("a .proto with something that the generator does not know is refused with its line", () => {
  const file = (body: string) => () => parseProto("x.proto", `syntax = "proto3";\n${body}`);
  assert.throws(file("message A {\n  map<string, string> b = 1;\n}"), /x\.proto:3: expected =/);
  assert.throws(file("message A {\n  int32 b = 1 [packed = true];\n}"), /x\.proto:3: expected ;/);
  assert.throws(file("enum A { B = 0; }"), /x\.proto:2: enum is not known here/);
  assert.throws(file("message A {"), /the file ends in the middle/);
});
