/** Batches keep their promises through crashes and full disks, and the checks of that find planted bugs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Change } from "@codeq/queue";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { RecordWrite } from "../../packages/server/src/core/store/store.ts";
import { campaignLength } from "../campaign-length.ts";
import { type Plant, runBatches } from "./batch-run.ts";
import { importMutant, type Mutation } from "./mutant.ts";

const length = campaignLength({ short: 40, long: 1000 });
const seeds = Array.from({ length }, (_, number) => `batches-${number}`);

test(`${seeds.length} seeds are sound`, async () => {
  for (const seed of seeds) assert.equal(await runBatches(seed), undefined, seed);
});

function onCommit(
  { store }: ShardBroker,
  rewrite: (changes: Change[], writes: RecordWrite[]) => void,
): void {
  const commit = store.commit.bind(store);
  store.commit = (changes, writes = []) => {
    const given = { changes: [...changes], writes: [...writes] };
    rewrite(given.changes, given.writes);
    return commit(given.changes, given.writes);
  };
}

function keepOnly<Item>(items: Item[], isKept: (item: Item) => boolean): void {
  items.splice(0, items.length, ...items.filter(isKept));
}

const isRelease = ({ before, after }: Change): boolean =>
  before?.place.in === "held" && after?.place.in === "ready";

const bugs: Readonly<Record<string, { readonly plant: Plant; readonly finding: RegExp }>> = {
  "the callback is released in another log record": {
    plant: ({ store }) => {
      const commit = store.commit.bind(store);
      store.commit = (changes, writes) => {
        const late = changes.filter(isRelease);
        const group = commit(
          changes.filter((each) => !isRelease(each)),
          writes,
        );
        return late.length === 0 ? group : commit(late);
      };
    },
    finding: /its callback held|waits for nothing/,
  },
  "the count is not written with the end of a member": {
    plant: (broker) =>
      onCommit(broker, (_, writes) =>
        keepOnly(writes, ({ key }) => !key.startsWith("codeq/batch-state/")),
      ),
    finding: /pending|no callback|is gone before|waits for nothing|its callback/,
  },
  "the callback is released when one member is left": {
    plant: (broker) => {
      const { batches } = broker;
      const follow = batches.follow.bind(batches);
      batches.follow = (changes, touched) => {
        const followed = follow(changes, touched);
        const created = changes.find(({ before, after }) => before === undefined && after?.batch);
        const callbackId =
          created?.after?.batch?.isCallback === false
            ? broker.store.batch({ tenantId: created.after.tenantId, id: created.after.batch.id })
                ?.record.callbackId
            : undefined;
        const callback = callbackId && broker.store.task(callbackId);
        if (!callback) return followed;
        if (callback.place.in !== "held") return followed;
        const after = { ...callback, place: { in: "ready", seq: 1e9 } } as const;
        const early = {
          ...(created as Change),
          before: callback,
          after,
          because: "promoted",
        } as const;
        return { ...followed, changes: [...followed.changes, early] };
      };
    },
    finding: /released early|its callback ready/,
  },
  "the end of a cancelled member is not counted": {
    plant: ({ batches }) => {
      const follow = batches.follow.bind(batches);
      batches.follow = (changes, touched) => {
        const counted = changes.filter(
          ({ because, after }) => because !== "cancelled" || after?.batch?.isCallback,
        );
        const followed = follow(counted, touched);
        const left = changes.filter((each) => !counted.includes(each));
        return { ...followed, changes: [...followed.changes, ...left] };
      };
    },
    finding: /pending/,
  },
  "a member is deleted while its callback waits": {
    plant: ({ batches }) => {
      batches.keeps = () => false;
    },
    finding: /members of .* are there/,
  },
  "a replayed member leaves the callback a dead letter": {
    plant: (broker) =>
      onCommit(broker, (changes) =>
        keepOnly(
          changes,
          ({ before, after }) => before?.place.in !== "dead" || after?.place.in !== "held",
        ),
      ),
    finding: /its callback dead/,
  },
  "an undone change stays in memory after a full disk": {
    plant: ({ batches }) => {
      batches.forget = () => {};
    },
    finding:
      /pending|add up|members of|its callback|waits for nothing|counts|gone|no callback|left behind/,
  },
  "a restart forgets which tasks others wait for": {
    plant: ({ batches }) => {
      batches.recover = () => Promise.resolve(batches.forget());
      // A broker that was opened before the bug was planted has read them.
      batches.awaits = () => false;
    },
    finding: /pending|counts/,
  },
  "the end of a task is not written with those that wait for it": {
    plant: ({ batches }) => {
      const follow = batches.follow.bind(batches);
      batches.follow = (changes, touched) => {
        const counted = changes.filter(
          ({ before, after }) => (after ?? before)?.batch !== undefined,
        );
        const left = changes.filter((each) => !counted.includes(each));
        const followed = follow(counted, touched);
        return { ...followed, changes: [...followed.changes, ...left] };
      };
    },
    finding: /after:.*pending/,
  },
  "members are not deleted after the callback": {
    plant: ({ batches }) => {
      batches.work = () => Promise.resolve();
    },
    finding: /left behind/,
  },
};

for (const [bug, { plant, finding }] of Object.entries(bugs)) {
  test(`it is noticed when ${bug}`, async () => {
    for (const seed of seeds) {
      const found = await runBatches(seed, plant);
      if (found === undefined) continue;
      assert.match(found, finding);
      return;
    }
    assert.fail("no seed has noticed it");
  });
}

const batches = "packages/server/src/core/broker/batches.ts";

const mutants: readonly (Mutation & { readonly bug: string; readonly finding: RegExp })[] = [
  {
    bug: "a count is lost when its batch leaves memory in the same turn",
    file: batches,
    from: "counted.get(nameOf(of)) ?? this.#find(of)",
    to: "this.#find(of)",
    finding: /pending|add up|waits for nothing|counts/,
  },
  {
    bug: "a callback that is deleted keeps members from being cancelled",
    file: "packages/queue/src/batch/batch.ts",
    from: 'state.chore === "cancel" ? state : { ...state, chore: "delete" }',
    to: '{ ...state, chore: "delete" }',
    finding: /left to run|left behind|is gone before/,
  },
  {
    bug: "a batch counts a member whose place another task took",
    file: batches,
    from: "if (hasLeft) return withoutMember(state, before);",
    to: "if (hasLeft) return state;",
    finding: /counts|add up|members of/,
  },
  {
    bug: "a member that is replayed after the callback ran releases it again",
    file: "packages/queue/src/batch/batch.ts",
    from: 'const waits = from === "failed" && state.phase === "failed";',
    to: 'const waits = from === "failed";',
    finding: /released \d times|its callback/,
  },
];

const run = new URL("./batch-run.ts", import.meta.url);

for (const { bug, finding, ...mutation } of mutants) {
  test(`it is noticed when ${bug}`, async () => {
    const mutant = await importMutant<{ runBatches: typeof runBatches }>(run, mutation);
    for (const seed of seeds) {
      const found = await mutant.runBatches(seed);
      if (found === undefined) continue;
      assert.match(found, finding);
      return;
    }
    assert.fail("no seed has noticed it");
  });
}
