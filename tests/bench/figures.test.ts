import assert from "node:assert/strict";
import { test } from "node:test";
import { cellOf, figure, latencyFigure, median, medianFigures, ratioFigures } from "./figures.ts";

test("a median stands in the middle, between two, or is missing", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.equal(median([undefined, 7]), 7);
  assert.equal(median([undefined]), undefined);
  assert.equal(median([]), undefined);
});

test("cells have the digits of their figure, and a dash for what is not known", () => {
  assert.equal(cellOf(figure("cycles/s", 1234.6)), "1235");
  assert.equal(cellOf(figure("server us", 12.34, 1)), "12.3");
  assert.equal(cellOf(figure("syscalls", undefined, 2)), "-");
  assert.equal(cellOf(figure("ratio", Number.NaN, 2)), "-");
  assert.equal(cellOf(latencyFigure("create", { p50Ms: 1.234, p99Ms: 123.4 })), "1.23/123");
  assert.equal(cellOf(latencyFigure("create", { p50Ms: 12.34, p99Ms: undefined })), "12.3/-");
  assert.equal(cellOf(latencyFigure("create", { p50Ms: undefined, p99Ms: undefined })), "-");
});

test("rounds come to the median of each figure, and two of them to a ratio", () => {
  const round = (rate: number, p50Ms: number, p99Ms: number | undefined) => [
    figure("cycles/s", rate),
    latencyFigure("create", { p50Ms, p99Ms }),
    { name: "full", values: [], digits: 0, text: "server" },
  ];
  const there = medianFigures([round(100, 1, 5), round(300, 3, 6), round(200, 2, undefined)]);
  const here = medianFigures([round(400, 1, 11), round(300, 1, 11)]);
  assert.deepEqual(there.map(cellOf), ["200", "2.00/5.50", "server"]);
  assert.deepEqual(here.map(cellOf), ["350", "1.00/11.0", "server"]);
  assert.deepEqual(ratioFigures(there, here).map(cellOf), ["1.75", "0.50/2.00", ""]);
});
