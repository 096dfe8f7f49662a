/** The stream benchmark as a developer starts it, for as short as it goes. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { Child, root } from "./server-process.ts";

/** As little as it goes: nobody looks at the rates. */
const seconds = "0.3";
const few = ["--producers", "4", "--slots", "8"];
const run = join(root, "tests/bench/run.ts");

function bench(...args: readonly string[]): Child {
  const nodeArgs = ["--conditions=source", run, ...args];
  return new Child(spawn(process.execPath, nodeArgs, { stdio: ["ignore", "pipe", "pipe"] }));
}

/** Cells of the rows below a header that has this column. */
function column(table: string, name: string): string[] {
  const rows = table.split("\n").map((line) => line.trim().split(/\s{2,}/));
  const header = rows.findIndex((cells) => cells.includes(name));
  assert.ok(header >= 0, `there is no column ${name} in ${table}`);
  const index = rows[header]?.indexOf(name) ?? 0;
  const end = rows.findIndex((cells, at) => at > header && cells.length < 2);
  return rows.slice(header + 1, end).map((cells) => cells[index] ?? "");
}

/** Rates are shown as whole numbers, and ratios of them with two digits. */
function assertRatio(rate: number, of: number, shown: number): void {
  const [least, most] = [(rate - 0.5) / (of + 0.5) - 0.005, (rate + 0.5) / (of - 0.5) + 0.005];
  assert.ok(rate > 0 && of > 0, `${rate} / ${of}`);
  assert.ok(shown >= least && shown <= most, `${rate} / ${of} is not ${shown}`);
}

test("the stream benchmark counts cycles in both forms and tells what they cost", async (t) => {
  const short = ["--seconds", seconds, "--warm-up", "0", "--rate-seconds", seconds];
  const child = bench("streams", "--mode", "os", "--batch", "1,8", ...few, ...short);
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  assert.deepEqual(column(stdout, "batch"), ["1", "8"]);
  for (const name of ["cycles/s", "server us", "client us", "heap B", "log B"]) {
    const figures = column(stdout, name).map(Number);
    assert.ok(
      figures.every((figure) => figure > 0),
      `${name}: ${figures}`,
    );
  }
  for (const name of ["create", "claim", "submit", "pickup"]) {
    for (const cell of column(stdout, name)) assert.match(cell, /^[\d.]+\/[\d.]+$/);
  }
});

test("another checkout is measured by turns, and medians are compared", async (t) => {
  const short = ["--seconds", seconds, "--warm-up", "0", "--rate-seconds", "0", "--batch", "8:32"];
  const child = bench(
    "streams",
    "--mode",
    "os",
    ...few,
    ...short,
    "--against",
    root,
    "--rounds",
    "2",
  );
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  const rows = ["there 1", "here 1", "there 2", "here 2", "there", "here", "ratio"];
  assert.deepEqual(column(stdout, "checkout"), rows);
  const [there = 0, here = 0, ratio = 0] = column(stdout, "cycles/s").slice(-3).map(Number);
  assertRatio(here, there, ratio);
});

test("the floor is measured by turns with the server, in both forms", async (t) => {
  const short = ["--seconds", seconds, "--warm-up", "0", "--rate-seconds", seconds];
  const child = bench("floor", "--mode", "fsync", "--batch", "8", ...few, ...short, "--rounds=1");
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  assert.deepEqual(column(stdout, "checkout"), ["floor 1", "here 1", "floor", "here", "ratio"]);
  const [floor = 0, here = 0, ratio = 0] = column(stdout, "cycles/s").slice(-3).map(Number);
  assertRatio(here, floor, ratio);
  for (const cell of column(stdout, "pickup")) assert.match(cell, /^[\d.]+\/[\d.]+$/);
});

test("the benchmark of shards shows how rates grow with them, over streams and over HTTP", async (t) => {
  const short = ["--seconds", seconds, "--warm-up", "0", "--mode", "os", "--clients", "2"];
  const child = bench("shards", "--shards", "1,3", ...few, "--connections", "8", ...short);
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  assert.deepEqual(column(stdout, "over"), ["streams", "streams", "http", "http"]);
  assert.deepEqual(column(stdout, "shards"), ["1", "3", "1", "3"]);
  const rates = column(stdout, "cycles/s").map(Number);
  const scaling = column(stdout, "scaling").map(Number);
  for (const [row, rate] of rates.entries()) {
    const first = rates[row - (row % 2)] ?? 0;
    assertRatio(rate, first, scaling[row] ?? 0);
  }
  for (const cell of column(stdout, "create")) assert.match(cell, /^[\d.]+\/[\d.]+$/);
  // Every thread is shown: one shard is in the main thread.
  const three = /^\d+\/\d+\/\d+$/;
  for (const [row, cell] of column(stdout, "shards %").entries()) {
    if (row % 2 === 0) assert.equal(cell, "-");
    else assert.match(cell, three);
  }
});

test("the benchmark of batches compares the ends of members with those of other tasks", async (t) => {
  const short = ["--members", "40", "--turns", "3", "--in-flight", "8", "--seconds", "0"];
  const child = bench("batches", ...short);
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  assert.deepEqual(column(stdout, "tasks of"), ["no batch", "one batch"]);
  for (const cell of column(stdout, "us per end")) assert.ok(Number(cell) > 0, stdout);
  assert.equal(column(stdout, "of first")[0], "1.00");
});

test("the benchmark of lanes compares queues by turns, and pickup beside a flood", async (t) => {
  const few = ["--lanes", "0,3", "--blocked", "50", "--runnable", "5", "--slots", "4"];
  const child = bench("lanes", ...few, "--in-flight", "4", "--seconds", "1", "--turns", "1");
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  assert.deepEqual(column(stdout, "lanes"), ["0", "3", "5"]);
  assert.deepEqual(column(stdout, "blocked"), ["0", "0", "50"]);
  for (const rate of column(stdout, "cycles/s")) assert.ok(Number(rate) > 0);
  assert.deepEqual(column(stdout, "flood"), ["no", "yes"]);
  for (const wait of column(stdout, "p99 ms")) assert.ok(Number(wait) > 0);
});

test("a benchmark refuses options that it does not know, and says which it has", async (t) => {
  const child = bench("streams", "--slots", "none");
  t.after(() => child.kill());
  const { code, stderr } = await child.exited;
  assert.equal(code, 1);
  assert.match(stderr, /^error: --slots is none; it takes a whole number from 1 on\n/);
  assert.match(stderr, /--rate-seconds/);
});
