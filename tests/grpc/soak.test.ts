/**
 * The short form of `npm run soak`: a few seconds of the same load with the same reckoning. CODEQ_SEED
 * repeats the choices of a run.
 */
import assert from "node:assert/strict";
import test from "node:test";
import { runSoak } from "../soak/soak.ts";

const seed = process.env["CODEQ_SEED"] ?? String(Date.now());
const seconds = 7;
const rate = 300;

test("mixed load leaves nothing behind, and everything adds up", async (t) => {
  const { problems, ledger, places, drainSeconds } = await runSoak({
    seconds,
    rate,
    seed,
    onProgress: () => {},
  });
  t.diagnostic(
    `seed ${seed}: ${ledger.total("creates acknowledged")} created, ` +
      `${ledger.total("deliveries")} delivered, ${places.completed} completed, ` +
      `${ledger.total("streams opened")} streams, drained in ${drainSeconds.toFixed(1)} s`,
  );
  assert.equal(problems.length, 0, `seed ${seed}:\n  ${problems.join("\n  ")}`);
  // Every kind of trouble was there.
  for (const what of ["deliveries", "completed", "failed", "nacks", "abandons", "heartbeats"]) {
    assert.ok(ledger.total(what) > 0, `there were no ${what}`);
  }
  const deaths = [...ledger.counts.keys()].filter((what) => what.startsWith("died "));
  assert.equal(deaths.length, 11);
  assert.ok(ledger.total("slow readers") > 0 && places.dead + places.failed > 0);
});
