import assert from "node:assert/strict";
import { test } from "node:test";
import { LeaderLog } from "../../packages/engine/src/log/replicated/leader-log.ts";
import {
  MemoryLogServer,
  MemorySharedLog,
} from "../../packages/engine/src/log/replicated/memory-shared-log.ts";
import { campaignLength } from "../campaign-length.ts";
import { type ClusterOutcome, simulateCluster } from "./cluster-run.ts";

const secondsMax = campaignLength({ short: 8, long: 300 });
const seedsMin = 10;
const counted = [
  "acknowledged",
  "claimed",
  "reads",
  "faults",
  "epochs",
  "trimmed",
  "copies",
] as const;

test(`clusters are sound for ${secondsMax} seconds of seeds`, async (context) => {
  const startedMs = performance.now();
  const first = 1 + Number(process.env["CODEQ_CLUSTER_SEED"] ?? 0);
  const none = { acknowledged: 0, claimed: 0, reads: 0, faults: 0, epochs: 0 };
  const totals = { seeds: 0, ...none, trimmed: 0, copies: 0 };
  for (let seed = first; ; seed += 1) {
    const isOver = performance.now() - startedMs > secondsMax * 1000;
    if (isOver && totals.seeds >= seedsMin) break;
    const { finding, ...outcome } = await simulateCluster({ seed });
    assert.equal(finding, undefined, `seed ${seed} with ${outcome.shards} shards`);
    totals.seeds += 1;
    for (const name of counted) totals[name] += outcome[name];
  }
  context.diagnostic(JSON.stringify(totals));
});

interface PlantedBug {
  readonly bug: string;
  readonly says: RegExp;
  readonly plant: () => Disposable;
}

/** Replaces a property of a class while a seed runs. */
function replace(of: object, name: string, property: PropertyDescriptor): Disposable {
  const before = Object.getOwnPropertyDescriptor(of, name) as PropertyDescriptor;
  Object.defineProperty(of, name, { configurable: true, ...property });
  return { [Symbol.dispose]: () => Object.defineProperty(of, name, before) };
}

const plantedBugs: readonly PlantedBug[] = [
  {
    bug: "the log takes records without comparing",
    says: /is diverged|gone|differ|stands for|given out twice|not found|in the end|a read says|agree/,
    plant: () =>
      replace(MemoryLogServer.prototype, "append", {
        value(this: MemoryLogServer, record: Uint8Array) {
          return this.force(record);
        },
      }),
  },
  {
    bug: "a record is acknowledged before a quorum has it",
    says: /is diverged|gone|not found|given out twice|in the end|stands for|a read says|agree|differ/,
    plant: () => {
      const { append } = MemorySharedLog.prototype;
      return replace(MemorySharedLog.prototype, "append", {
        async value(this: MemorySharedLog, record: Uint8Array, slot: number) {
          const answer = await append.call(this, record, slot);
          return answer.kind === "unknown" ? { kind: "kept" } : answer;
        },
      });
    },
  },
  {
    bug: "a node that may have been deposed answers reads",
    says: /a read says|is not found/,
    plant: () => replace(LeaderLog.prototype, "isSure", { get: () => true }),
  },
  {
    bug: "a deposed leader goes on as if it led",
    says: /given out twice|stands for|in the end|not found|a read says|differ|gone|agree/,
    plant: () => {
      const { append } = MemorySharedLog.prototype;
      return replace(MemorySharedLog.prototype, "append", {
        async value(this: MemorySharedLog, record: Uint8Array, slot: number) {
          const answer = await append.call(this, record, slot);
          return answer.kind === "fenced" ? { kind: "kept" } : answer;
        },
      });
    },
  },
];

for (const { bug, says, plant } of plantedBugs) {
  test(`it is noticed when ${bug}`, async () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const planted = plant();
      const run = (): Promise<ClusterOutcome> => simulateCluster({ seed });
      const { finding } = await run().finally(() => planted[Symbol.dispose]());
      if (finding === undefined) continue;
      assert.match(finding, says);
      const without = await run();
      assert.equal(without.finding, undefined, "the same seed is sound without the bug");
      return;
    }
    assert.fail("60 seeds passed with the bug");
  });
}
