import assert from "node:assert/strict";
import { test } from "node:test";
import type { OptionRow } from "./command.ts";
import { Options, parseDurationMs } from "./options.ts";

const rows: readonly OptionRow[] = [
  { name: "size", value: "number", about: "" },
  { name: "wait", value: "time", about: "" },
  { name: "kind", value: "kind", choices: ["a", "b"], about: "" },
  { name: "tag", value: "tags", multiple: true, about: "" },
];

function options(values: Record<string, string[]>): Options {
  return new Options(rows, new Map(Object.entries(values)));
}

test("times are seconds, or have a unit", () => {
  const cases: [string, number | undefined][] = [
    ["5", 5000],
    ["1.5", 1500],
    ["250ms", 250],
    ["2s", 2000],
    ["3m", 180_000],
    ["1h", 3_600_000],
    ["1d", 86_400_000],
    ["0", 0],
    ["-1", undefined],
    ["5 s", undefined],
    ["1w", undefined],
    ["", undefined],
    ["1e3", undefined],
  ];
  for (const [text, ms] of cases) assert.equal(parseDurationMs(text), ms, text);
});

test("whole numbers are checked on both sides of their limits", () => {
  const limits = { min: 1, max: 9 };
  assert.equal(options({ size: ["1"] }).wholeNumber("size", limits), 1);
  assert.equal(options({ size: ["9"] }).wholeNumber("size", limits), 9);
  assert.equal(options({}).wholeNumber("size", limits), undefined);
  for (const text of ["0", "10", "1.5", "x", "", "0x5", "1e1"]) {
    assert.throws(
      () => options({ size: [text] }).wholeNumber("size", limits),
      /--size must be a whole number from 1 to 9, not "/,
      text,
    );
  }
});

test("a time that is none says how to write one", () => {
  assert.throws(() => options({ wait: ["soon"] }).durationMs("wait"), /such as 90s, not "soon"/);
});

test("a moment says its zone, and is left as it was written", () => {
  for (const text of ["2030-01-02T03:04:05Z", "2030-01-02T03:04:05.123456789-03:00"]) {
    assert.equal(options({ wait: [text] }).instant("wait"), text);
  }
  for (const text of ["tomorrow", "2030-01-02", "2030-01-02T03:04:05", "2030-13-02T03:04:05Z"]) {
    assert.throws(
      () => options({ wait: [text] }).instant("wait"),
      /--wait must be a time such as 2030-01-02T03:04:05Z, not /,
    );
  }
});

test("a choice is one of the list, and lists come with commas or repetition", () => {
  assert.equal(options({ kind: ["b"] }).text("kind"), "b");
  assert.throws(() => options({ kind: ["c"] }).text("kind"), /--kind must be one of a, b, not "c"/);
  assert.deepEqual(options({ tag: ["x, y", "z", ""] }).list("tag"), ["x", "y", "z"]);
});

test("asking for an option that the row does not have is a bug", () => {
  assert.throws(() => options({}).text("colour"), /no row for --colour/);
});
