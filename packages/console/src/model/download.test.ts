import assert from "node:assert/strict";
import test from "node:test";
import { csvOf } from "./download.ts";

test("cells keep commas, quotes and lines, and are never formulas", () => {
  const rows = [['a,"b"', "two\nlines", "=HYPERLINK(1)", "@x", -5, undefined]];
  assert.equal(
    csvOf(["one", "two", "three", "four", "five", "six"], rows),
    'one,two,three,four,five,six\r\n"a,""b""","two\nlines",\'=HYPERLINK(1),\'@x,-5,\r\n',
  );
});
