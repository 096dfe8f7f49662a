import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import test from "node:test";
import { AbortGroups } from "./abort-groups.ts";

test("a signal has one listener, however many wait for it, and none when nobody does", () => {
  const groups = new AbortGroups();
  const { signal } = new AbortController();
  const stops = Array.from({ length: 100 }, () => groups.add(signal, () => {}));
  assert.equal(getEventListeners(signal, "abort").length, 1);
  for (const stop of [...stops, ...stops]) stop();
  assert.equal(getEventListeners(signal, "abort").length, 0);
  groups.add(signal, () => {});
  assert.equal(getEventListeners(signal, "abort").length, 1);
});

test("an abort calls those of its signal back, once each", () => {
  const groups = new AbortGroups();
  const [one, other] = [new AbortController(), new AbortController()];
  const called: string[] = [];
  const stop = groups.add(one.signal, () => {
    called.push("first");
    stop();
  });
  groups.add(one.signal, () => called.push("stopped"))();
  groups.add(one.signal, () => called.push("second"));
  groups.add(other.signal, () => called.push("other"));
  one.abort();
  assert.deepEqual(called, ["first", "second"]);
  groups.add(one.signal, () => called.push("late"));
  assert.deepEqual(called, ["first", "second", "late"]);
  other.abort();
  assert.equal(called.at(-1), "other");
});
