import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../../../simulated/src/index.ts";
import { ProgressBar, progressLine } from "./screen.ts";
import { chooseStyle, fit, widthOf } from "./style.ts";
import { type Column, columnsWithin, tableLines } from "./table.ts";
import { bytes, count, counted, duration, localMoment, rate } from "./units.ts";

const colours = { isTerminal: true, env: {}, refused: false };

test("colours are for terminals, and only where nobody refuses them", () => {
  const isColoured = (
    choice: Partial<typeof colours> & { env?: Record<string, string> },
  ): boolean => chooseStyle({ ...colours, ...choice }).red("x") !== "x";
  assert.equal(isColoured({}), true);
  assert.equal(isColoured({ isTerminal: false }), false);
  assert.equal(isColoured({ refused: true }), false);
  assert.equal(isColoured({ env: { NO_COLOR: "1" } }), false);
  assert.equal(isColoured({ env: { NO_COLOR: "" } }), true);
  assert.equal(isColoured({ env: { TERM: "dumb" } }), false);
});

test("widths do not count colours, and a cut leaves them whole", () => {
  const style = chooseStyle(colours);
  const text = `${style.red("abcdef")}ghi`;
  assert.equal(widthOf(text), 9);
  assert.equal(fit(text, 9), text);
  assert.equal(fit(text, 4), `${style.red("abc…")}`);
  assert.equal(widthOf(fit(text, 7)), 7);
});

test("columns are as wide as their widest cell, numbers to the right", () => {
  const columns: Column<[string, number]>[] = [
    { title: "NAME", show: ([name]) => name },
    { title: "N", align: "right", show: ([, number]) => count(number) },
  ];
  const style = chooseStyle({ ...colours, isTerminal: false });
  const rows: [string, number][] = [
    ["a", 1],
    ["longer", 12_345],
  ];
  assert.deepEqual(tableLines(columns, rows, style), [
    "NAME         N",
    "a            1",
    "longer  12,345",
  ]);
});

test("a column that does not fit is left out, and so are those behind it", () => {
  const columns: Column<string>[] = ["A", "B", "C"].map((title) => ({ title, show: (row) => row }));
  const titles = (width: number): string[] =>
    columnsWithin(width, columns, ["12345"]).map(({ title }) => title);
  assert.deepEqual([19, 18, 12, 11, 4].map(titles), [
    ["A", "B", "C"],
    ["A", "B"],
    ["A", "B"],
    ["A"],
    ["A"],
  ]);
});

test("numbers read well", () => {
  assert.deepEqual([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
  assert.deepEqual([0, 1023, 1536, 200 * 1024 ** 2].map(bytes), [
    "0 B",
    "1023 B",
    "1.5 KiB",
    "200 MiB",
  ]);
  assert.deepEqual([0, 0.25, 9.96, 10.4].map(rate), ["0", "0.3", "10.0", "10"]);
  assert.deepEqual([0.123, 5.25, 250, 1500, 59_000, 61_000, 3_700_000, 90_000_000].map(duration), [
    "0.12 ms",
    "5.3 ms",
    "250 ms",
    "1.5 s",
    "59 s",
    "1m 1s",
    "1h 1m",
    "1d 1h",
  ]);
});

test("a moment is the same in the zone of the reader", () => {
  const text = localMoment("2026-11-15T14:16:45.471-03:00");
  assert.equal(Date.parse(text), Date.UTC(2026, 10, 15, 17, 16, 45, 471));
  assert.match(text, /^2026-11-1\dT\d\d:\d6:45\.471[+-]\d\d:\d\d$/);
  assert.equal(new Date(text).getHours(), Number(text.slice(11, 13)));
  assert.equal(localMoment("none"), "none");
});

test("one thing has no s", () => {
  assert.deepEqual(
    [0, 1, 2000].map((n) => counted(n, "task")),
    ["0 tasks", "1 task", "2,000 tasks"],
  );
});

test("a progress bar shows how much is done, and how fast", () => {
  assert.equal(
    progressLine({ title: "tasks", total: 200 }, 50, 1000),
    "tasks  ██████░░░░░░░░░░░░░░░░░░  25%  50 of 200  50/s",
  );
  assert.equal(progressLine({ title: "tasks", total: undefined }, 50, 2000), "tasks  50  25/s");
});

test("a progress bar draws rarely, only on a terminal, and leaves nothing behind", async () => {
  const clock = new SimClock();
  const written: string[] = [];
  const output = {
    isTerminal: true,
    columns: 80,
    rows: 24,
    onResize: () => () => {},
    write: (text: string) => void written.push(text),
  };
  {
    using bar = new ProgressBar({ output, clock, title: "x", total: 10 });
    bar.set(1);
    bar.set(2);
    await clock.advance(100);
    bar.set(3);
  }
  assert.equal(written.length, 3);
  assert.match(written[1] ?? "", /3 of 10/);
  assert.equal(written[2], "\r\x1b[K");
  using silent = new ProgressBar({
    output: { ...output, isTerminal: false },
    clock,
    title: "x",
    total: 10,
  });
  silent.set(5);
  assert.equal(written.length, 3);
});
