import assert from "node:assert/strict";
import { test } from "node:test";
import { trackNoPromises } from "../untracked-promises.ts";
import type { Finding } from "./checkers/checker-board.ts";
import { checkers } from "./checkers/index.ts";
import { plantedBugs } from "./planted-bugs.ts";
import { type SimulationOptions, simulate } from "./simulation.ts";

trackNoPromises();

/** Many, because any change of the server changes what seeds do; hardly ever are more than a few tried. */
const seedsMax = 300;
const withoutBugs = new Map<string, Promise<Finding | undefined>>();

for (const { checker, bug, plants, durability, seed: known = 1 } of plantedBugs) {
  test(`${checker} notices when ${bug}`, async () => {
    for (const seed of [known, ...Array.from({ length: seedsMax }, (_, at) => at + 1)]) {
      const options = { seed, durability };
      const { finding } = await simulate({ ...options, plants, checkers: [checker] });
      if (finding === undefined) continue;
      assert.equal(finding.checker, checker, finding.text);
      const without = await findingWithout(options);
      assert.equal(without, undefined, "the same seed is sound without the bug");
      return;
    }
    assert.fail(`${seedsMax} seeds passed with the bug`);
  });
}

/** What all checkers find without a bug; many bugs show with the same seed, which runs once. */
function findingWithout(options: SimulationOptions): Promise<Finding | undefined> {
  const key = JSON.stringify(options);
  const found = withoutBugs.get(key) ?? simulate(options).then(({ finding }) => finding);
  withoutBugs.set(key, found);
  return found;
}

test("every checker has a planted bug", () => {
  const tripped = new Set<string>(plantedBugs.map(({ checker }) => checker));
  assert.deepEqual([...tripped].sort(), Object.keys(checkers).sort());
});
