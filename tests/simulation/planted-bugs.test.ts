import assert from "node:assert/strict";
import { test } from "node:test";
import { checkers } from "./checkers/index.ts";
import { plantedBugs } from "./planted-bugs.ts";
import { simulate } from "./simulation.ts";

/** Many, because any change of the server changes what seeds do; hardly ever are more than a few tried. */
const seedsMax = 300;

for (const { checker, bug, plants, durability, steps, seed: known = 1 } of plantedBugs) {
  test(`${checker} notices when ${bug}`, async () => {
    for (const seed of [known, ...Array.from({ length: seedsMax }, (_, at) => at + 1)]) {
      const options = { seed, ...(steps && { steps }), durability, checkers: [checker] };
      const { finding } = await simulate({ ...options, plants });
      if (finding === undefined) continue;
      assert.equal(finding.checker, checker, finding.text);
      const without = await simulate(options);
      assert.equal(without.finding, undefined, "the same seed is sound without the bug");
      return;
    }
    assert.fail(`${seedsMax} seeds passed with the bug`);
  });
}

test("every checker has a planted bug", () => {
  const tripped = new Set<string>(plantedBugs.map(({ checker }) => checker));
  assert.deepEqual([...tripped].sort(), Object.keys(checkers).sort());
});
