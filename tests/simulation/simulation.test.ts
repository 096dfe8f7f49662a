import assert from "node:assert/strict";
import { test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { trackNoPromises } from "../untracked-promises.ts";
import { seeds } from "./seeds.ts";
import { type SimulationOutcome, simulate } from "./simulation.ts";

const freshSeeds = campaignLength({ short: 5, long: 1000 });

trackNoPromises();

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

test(`${freshSeeds} fresh seeds are sound`, async (context) => {
  const first = Math.floor(performance.timeOrigin) % 1_000_000_000;
  let steps = 0;
  for (let seed = first; seed < first + freshSeeds; seed += 1) {
    const outcome = await simulate({ seed });
    steps += outcome.steps;
    assertSound(outcome);
  }
  context.diagnostic(`seeds ${first} to ${first + freshSeeds - 1}, ${steps} steps`);
});
