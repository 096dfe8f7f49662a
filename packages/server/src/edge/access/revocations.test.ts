import assert from "node:assert/strict";
import { test } from "node:test";
import type { Identity } from "./identity.ts";
import { Revocations } from "./token-provider.ts";

function holder(): { identity: Identity; revoke: () => void } {
  let isRevoked = false;
  const identity = { isRevoked: () => isRevoked } as Identity;
  return {
    identity,
    revoke: () => {
      isRevoked = true;
    },
  };
}

test("those whose token was taken back are told once, and nobody else", () => {
  const revocations = new Revocations();
  const [a, b] = [holder(), holder()];
  const told: string[] = [];
  revocations.watch(a.identity, () => told.push("a"));
  revocations.watch(a.identity, () => told.push("a again"));
  revocations.watch(b.identity, () => told.push("b"));
  revocations.announce();
  assert.deepEqual(told, []);
  a.revoke();
  revocations.announce();
  revocations.announce();
  assert.deepEqual(told, ["a", "a again"]);
});

test("who no longer watches is not told", () => {
  const revocations = new Revocations();
  const { identity, revoke } = holder();
  const stop = revocations.watch(identity, () => assert.fail("told"));
  stop();
  stop();
  revoke();
  revocations.announce();
});

test("one that was taken back before it is watched is told at once", () => {
  const { identity, revoke } = holder();
  revoke();
  let told = 0;
  new Revocations().watch(identity, () => {
    told += 1;
  });
  assert.equal(told, 1);
});

test("one that stops watching while others are told is not told any more", () => {
  const revocations = new Revocations();
  const { identity, revoke } = holder();
  let stop = (): void => {};
  revocations.watch(identity, () => stop());
  stop = revocations.watch(identity, () => assert.fail("told"));
  revoke();
  revocations.announce();
});
