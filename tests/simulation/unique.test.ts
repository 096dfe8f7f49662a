/** Unique keys keep their promises through crashes, and the checks of that find planted bugs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Change } from "@codeq/queue";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { RecordWrite } from "../../packages/server/src/core/store/store.ts";
import { type Plant, runUnique } from "./unique-run.ts";

const seeds = Array.from({ length: 40 }, (_, number) => `unique-${number}`);

test(`${seeds.length} seeds are sound`, async () => {
  for (const seed of seeds) assert.equal(await runUnique(seed), undefined, seed);
});

function onCommit(
  { store }: ShardBroker,
  rewrite: (changes: readonly Change[], writes: readonly RecordWrite[]) => void,
): void {
  const commit = store.commit.bind(store);
  store.commit = (changes, writes = []) => {
    const given = { changes: [...changes], writes: [...writes] };
    rewrite(given.changes, given.writes);
    return commit(given.changes, given.writes);
  };
}

const isOfUnique = ({ key }: RecordWrite): boolean => key.startsWith("codeq/unique/");

/** Changes the lists in place. */
function keepOnly<Item>(items: readonly Item[], isKept: (item: Item) => boolean): void {
  const kept = items.filter(isKept);
  (items as Item[]).splice(0, items.length, ...kept);
}

const bugs: Readonly<Record<string, { readonly plant: Plant; readonly finding: RegExp }>> = {
  "the entry is not removed with the end of its task": {
    plant: (broker) =>
      onCommit(broker, (_, writes) =>
        keepOnly(writes, (write) => !isOfUnique(write) || write.value !== ""),
      ),
    finding: /has an entry and no task|names another task/,
  },
  "the entry is not written with the create": {
    plant: (broker) => onCommit(broker, (_, writes) => keepOnly(writes, (w) => !isOfUnique(w))),
    finding: /has no entry/,
  },
  "a waiting task is not released with the end of the holder": {
    plant: (broker) =>
      onCommit(broker, (changes) =>
        keepOnly(
          changes,
          ({ before, because }) => because !== "promoted" || !before?.unique?.isHeld,
        ),
      ),
    finding: /has 0 live tasks|names another/,
  },
  "the payload of the last request is dropped": {
    plant: (broker) =>
      onCommit(broker, (changes) => {
        for (const [at, change] of changes.entries()) {
          const { before, after, because } = change;
          if (because !== "edited" || after?.unique === undefined || before === undefined) continue;
          const old = { ...after, payload: before.payload };
          (changes as Change[])[at] = { ...change, after: old };
        }
      }),
    finding: /was accepted with/,
  },
  "a request does not look for the holder": {
    plant: ({ store }) => {
      store.unique = () => undefined;
    },
    finding: /has 2 live tasks|names another/,
  },
};

for (const [bug, { plant, finding }] of Object.entries(bugs)) {
  test(`it is noticed when ${bug}`, async () => {
    for (const seed of seeds) {
      const found = await runUnique(seed, plant);
      if (found === undefined) continue;
      assert.match(found, finding);
      return;
    }
    assert.fail("no seed has noticed it");
  });
}
