import assert from "node:assert/strict";
import { test } from "node:test";
import { SimRandom } from "./sim-random.ts";

function setup(seed: number | string = 1): SimRandom {
  return new SimRandom(seed);
}

function drawn(random: SimRandom, count: number): number[] {
  return Array.from({ length: count }, () => random.next());
}

test("the same seed gives the same numbers, another seed others", () => {
  assert.deepEqual(drawn(setup(7), 50), drawn(setup(7), 50));
  const all = new Set([1, 2, 3, "1/a", "a"].flatMap((seed) => drawn(setup(seed), 50)));
  assert.equal(all.size, 250);
});

test("numbers are spread over their range", () => {
  const random = setup();
  const counts = new Array<number>(10).fill(0);
  for (let draw = 0; draw < 20_000; draw += 1) {
    const number = random.int(10);
    counts[number] = (counts[number] ?? 0) + 1;
  }
  assert.ok(
    counts.every((count) => count > 1800 && count < 2200),
    String(counts),
  );
});

test("a fork does not depend on what was drawn before it, nor the other way round", () => {
  const plain = setup();
  const used = setup();
  drawn(used, 10);
  assert.deepEqual(drawn(plain.fork("disk"), 5), drawn(used.fork("disk"), 5));
  assert.deepEqual(drawn(plain, 15).slice(10), drawn(used, 5));
  assert.notDeepEqual(drawn(plain.fork("disk"), 5), drawn(plain.fork("net"), 5));
});

test("pick takes every element sooner or later and refuses an empty list", () => {
  const random = setup();
  const seen = new Set(Array.from({ length: 200 }, () => random.pick(["a", "b", "c"])));
  assert.deepEqual([...seen].sort(), ["a", "b", "c"]);
  assert.throws(() => random.pick([]));
});

test("bytes fills the whole array with every value", () => {
  const into = new Uint8Array(8192);
  setup().bytes(into);
  assert.equal(new Set(into).size, 256);
});
