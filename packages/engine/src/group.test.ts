import assert from "node:assert/strict";
import { test } from "node:test";
import { Slab } from "./batch-codec.ts";
import { FaultError } from "./fault.ts";
import { type CommitWaiter, Group } from "./group-commit.ts";

const full = new FaultError("disk_full", "full");

function setup(): {
  group: Group;
  told: string[];
  waiter: (name: string, also?: () => void) => CommitWaiter;
} {
  const told: string[] = [];
  const waiter = (name: string, also: () => void = () => {}): CommitWaiter => ({
    durable: () => {
      told.push(`${name} durable`);
      also();
    },
    refused: ({ code }) => {
      told.push(`${name} ${code}`);
      also();
    },
  });
  return { group: new Group(1, new Slab()), told, waiter };
}

/** What nobody handles while `run` runs and in the turn after it. */
async function strayErrors(run: () => void): Promise<unknown[]> {
  const strays: unknown[] = [];
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => strays.push(error));
  try {
    run();
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.removeAllListeners("unhandledRejection");
    for (const other of others) process.on("unhandledRejection", other);
  }
  return strays;
}

test("waiters are told once, in the order in which they came", () => {
  for (const [settle, how] of [
    [(group: Group) => group.resolve(), "durable"],
    [(group: Group) => group.reject(full), "disk_full"],
  ] as const) {
    const { group, told, waiter } = setup();
    for (const name of ["a", "b", "c"]) group.wait(waiter(name));
    assert.deepEqual(told, []);
    settle(group);
    assert.deepEqual(told, [`a ${how}`, `b ${how}`, `c ${how}`]);
  }
});

test("a waiter that comes while others are told is told behind them, and one after that at once", () => {
  const { group, told, waiter } = setup();
  group.wait(waiter("a", () => group.wait(waiter("late"))));
  group.wait(waiter("b"));
  group.resolve();
  assert.deepEqual(told, ["a durable", "b durable", "late durable"]);
  group.wait(waiter("last"));
  assert.equal(told.at(-1), "last durable");
});

test("a waiter that throws keeps nobody from being told, and its error is not swallowed", async () => {
  const { group, told, waiter } = setup();
  const bug = new TypeError("planted");
  const fail = (): void => {
    throw bug;
  };
  group.wait(waiter("a", fail));
  group.wait(waiter("b"));
  const strays = await strayErrors(() => {
    group.resolve();
    group.wait(waiter("c", fail));
  });
  assert.deepEqual(told, ["a durable", "b durable", "c durable"]);
  assert.deepEqual(strays, [bug, bug]);
});

test("the promise settles whether it was asked for before or after", async () => {
  for (const before of [true, false]) {
    const durable = setup().group;
    const refused = setup().group;
    if (before) for (const group of [durable, refused]) group.done.catch(() => {});
    durable.resolve();
    refused.reject(full);
    await durable.done;
    await assert.rejects(refused.done, full);
    assert.equal(refused.done, refused.done);
  }
});

test("a promise that nobody waits for is no unhandled rejection", async () => {
  const early = setup().group;
  const late = setup().group;
  const strays = await strayErrors(() => {
    void early.done;
    for (const group of [early, late]) group.reject(full);
    void late.done;
  });
  assert.deepEqual(strays, []);
});
