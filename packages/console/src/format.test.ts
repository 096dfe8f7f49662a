import assert from "node:assert/strict";
import test from "node:test";
import { ago, bytes, duration, plural, rate, share, time, visible, workerName } from "./format.ts";

test("durations have two units at most", () => {
  const shown = [0, 999, 1800, 59_400, 1_574_000, 11_520_000, 86_400_000 * 9].map(duration);
  assert.deepEqual(shown, ["0 ms", "999 ms", "1.8 s", "59 s", "26 m 14 s", "3 h 12 m", "9 d"]);
});

test("a moment is shown as asked for", () => {
  const at = Date.UTC(2026, 4, 14, 14, 30, 52);
  assert.equal(time(at, "relative", at + 90_000), "1 m 30 s ago");
  assert.equal(time(at, "utc", at), "2026-05-14 14:30:52 UTC");
  assert.equal(ago(at + 60_000, at), "in 1 m");
  assert.equal(ago(at, at + 300), "now");
});

test("figures keep their size readable", () => {
  assert.deepEqual([0, 0.01, 0.2, 9.96, 951.4].map(rate), ["0", "<0.1", "0.2", "10.0", "951"]);
  assert.deepEqual([0, 0.0004, 0.177, 1].map(share), ["0%", "<0.1%", "17.7%", "100%"]);
  assert.deepEqual([0, 612, 1500, 182e9].map(bytes), ["0 B", "612 B", "1.5 KB", "182 GB"]);
  assert.deepEqual([plural(1, "task"), plural(48_112, "task")], ["1 task", "48,112 tasks"]);
});

test("marks that turn or hide text are shown as symbols", () => {
  assert.equal(visible("a\u202eb"), "a\u27e8U+202E\u27e9b");
  assert.equal(visible("\u0000\u001b[31m"), "\u2400\u241b[31m");
  assert.equal(visible("tab\tand\nline"), "tab\tand\nline");
  assert.equal(visible("Müller <b>"), "Müller <b>");
});

test("a worker is shown by the name that it gave itself", () => {
  assert.equal(workerName("worker-dev"), "worker-dev");
  assert.equal(workerName("~slot%201%20%C3%A4@worker-dev"), "slot 1 ä (worker-dev)");
  assert.equal(workerName("~@~odd"), "~odd");
  assert.equal(workerName("~%zz@x"), "~%zz@x");
});
