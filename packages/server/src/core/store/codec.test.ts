import assert from "node:assert/strict";
import { test } from "node:test";
import { DamagedBytes } from "./bytes.ts";
import {
  decode,
  encode,
  json,
  list,
  nothing,
  number,
  oneOf,
  optional,
  struct,
  text,
} from "./codec.ts";

const point = struct<{
  x: number;
  name: string;
  tags: readonly string[];
  next: number | undefined;
}>({
  x: number,
  name: text,
  tags: list(text),
  next: optional(number),
});

test("the bytes of a struct are those of its fields, in their order", () => {
  const value = { x: 3, name: "ab", tags: ["c"], next: undefined };
  const bytes = encode(point, value);
  assert.equal(bytes.toString("hex"), "0302616201016300");
  assert.deepEqual(decode(point, bytes), value);
  assert.equal(encode(nothing, undefined).length, 0);
});

test("bytes that are cut, or that have more behind them, are not a value", () => {
  const bytes = encode(point, { x: 300, name: "ab", tags: ["c", "d"], next: 7 });
  for (let length = 0; length < bytes.length; length += 1) {
    assert.throws(() => decode(point, bytes.subarray(0, length)), DamagedBytes);
  }
  assert.throws(() => decode(point, Buffer.concat([bytes, Buffer.from([0])])), DamagedBytes);
});

test("a position that no value has is noticed", () => {
  const colour = oneOf(["red", "green"] as const);
  assert.equal(decode(colour, encode(colour, "green")), "green");
  assert.throws(() => decode(colour, Buffer.from([2])), DamagedBytes);
});

test("JSON is made of the value as it is when it is written", () => {
  const any = json<unknown>();
  const value = { a: 1 };
  assert.deepEqual(decode(any, encode(any, value)), { a: 1 });
  value.a = 2;
  assert.deepEqual(decode(any, encode(any, value)), { a: 2 });
  const many = list(any);
  assert.deepEqual(decode(many, encode(many, [value, undefined, value])), [
    value,
    undefined,
    value,
  ]);
  assert.throws(() => decode(any, encode(text, "{")), DamagedBytes);
});
