import assert from "node:assert/strict";
import { test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { seeds } from "./seeds.ts";
import { type SimulationOutcome, simulate } from "./simulation.ts";

const freshSeconds = campaignLength({ short: 8, long: 300 });

function assertSound({ seed, durability, finding, steps }: SimulationOutcome): void {
  assert.equal(
    finding,
    undefined,
    `seed ${seed} (${durability}, step ${steps}): ${finding?.checker}: ${finding?.text}\n` +
      `replay with: npm run sim -- --seed ${seed} --trace`,
  );
}

for (const { seed, showed } of seeds) {
  test(`seed ${seed} is sound, which showed that ${showed}`, async () => {
    assertSound(await simulate({ seed }));
  });
}

test("the same seed is the same story, and another seed another one", async () => {
  const first = await simulate({ seed: 7 });
  const again = await simulate({ seed: 7 });
  const other = await simulate({ seed: 8 });
  assert.equal(again.trace, first.trace);
  assert.equal(again.calls, first.calls);
  assert.notEqual(other.trace, first.trace);
});

test("every durability mode is sound", async () => {
  for (const durability of ["fsync", "interval", "os"] as const) {
    assertSound(await simulate({ seed: 1, durability }));
  }
});

test(`fresh seeds are sound for ${freshSeconds} s`, async (context) => {
  const startMs = performance.now();
  const first = Math.floor(performance.timeOrigin) % 1_000_000_000;
  let seed = first;
  let steps = 0;
  for (; performance.now() - startMs < freshSeconds * 1000; seed += 1) {
    const outcome = await simulate({ seed });
    steps += outcome.steps;
    assertSound(outcome);
  }
  context.diagnostic(`seeds ${first} to ${seed - 1}, ${steps} steps`);
});
