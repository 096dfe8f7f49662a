import assert from "node:assert/strict";
import test from "node:test";
import type { TaskId, TenantId } from "@codeq/queue";
import {
  type Callback,
  CallbackLanes,
  type LaneLimits,
  laneLimitsOfShard,
  type Now,
} from "./callback-lanes.ts";
import { openMsMin, silentMax } from "./circuit-breaker.ts";

const start: Now = { wallMs: 1_000_000, monotonicMs: 0 };
let last = 0;

function callback(fields: Partial<Callback> = {}): Callback {
  last += 1;
  const id = String(last).padStart(6, "0") as TaskId;
  return {
    id,
    key: `key/${id}`,
    dueMs: 0,
    tries: 0,
    tenantId: "acme" as TenantId,
    endpoint: "http://a",
    overMs: 2_000_000,
    ...fields,
  };
}

function setup(limits: Partial<LaneLimits>, callbacks: readonly Callback[]): CallbackLanes {
  const lanes = new CallbackLanes(limits);
  for (const each of callbacks) lanes.add(each, start);
  return lanes;
}

function takeAll(lanes: CallbackLanes, nowMs = 0): Callback[] {
  const taken: Callback[] = [];
  for (;;) {
    const next = lanes.take(nowMs);
    if (next === undefined) return taken;
    taken.push(next);
  }
}

const many = (count: number, fields: Partial<Callback> = {}): Callback[] =>
  Array.from({ length: count }, () => callback(fields));

const names = (callbacks: readonly Callback[]): string[] =>
  callbacks.map(({ tenantId, endpoint }) => `${tenantId} ${endpoint}`);

test("tenants take turns, and so do the endpoints of a tenant", () => {
  const globex = "globex" as TenantId;
  const lanes = setup({}, [
    ...many(3),
    ...many(3, { endpoint: "http://b" }),
    ...many(2, { tenantId: globex }),
  ]);
  assert.deepEqual(names(takeAll(lanes)), [
    ...["acme http://a", "globex http://a", "acme http://b", "globex http://a"],
    ...["acme http://a", "acme http://b"],
  ]);
});

test("a new endpoint has few slots, and more once it has answered", () => {
  const lanes = setup({ perNewEndpointMax: 2, perEndpointMax: 5 }, many(10));
  const [first] = takeAll(lanes);
  assert.ok(first !== undefined);
  lanes.end(first, "answered", start);
  assert.equal(takeAll(lanes).length, 4);
});

test("new endpoints leave slots of their tenant to known ones", () => {
  const limits = { perTenantMax: 6, keptForKnownEndpoints: 2 };
  const known = callback({ endpoint: "http://known" });
  const lanes = setup(limits, [known]);
  assert.equal(lanes.take(0), known);
  lanes.end(known, "answered", start);
  for (let n = 0; n < 10; n += 1) lanes.add(callback({ endpoint: `http://${n}` }), start);
  assert.equal(takeAll(lanes).length, 4);
  for (const each of many(5, { endpoint: "http://known" })) lanes.add(each, start);
  assert.deepEqual(names(takeAll(lanes)), ["acme http://known", "acme http://known"]);
});

test("the last slots are for tenants that have nothing on its way", () => {
  const limits = { inFlightMax: 8, keptForIdleTenants: 2 };
  const endpoints = Array.from({ length: 20 }, (_, n) => callback({ endpoint: `http://${n}` }));
  const lanes = setup(limits, endpoints);
  assert.equal(takeAll(lanes).length, 6);
  assert.equal(lanes.nextMs(0), undefined);
  for (const tenantId of ["b", "c", "d"]) {
    lanes.add(callback({ tenantId: tenantId as TenantId }), start);
  }
  assert.deepEqual(names(takeAll(lanes)), ["b http://a", "c http://a"]);
});

test("an endpoint that does not answer gets one try when its breaker lets it pass", () => {
  const lanes = setup({ perNewEndpointMax: silentMax }, many(10));
  const turned = takeAll(lanes).map((each) => lanes.end(each, "unanswered", start).turned);
  assert.deepEqual(turned, [undefined, undefined, "silent"]);
  assert.deepEqual(takeAll(lanes), []);
  assert.equal(lanes.nextMs(0), openMsMin);
  const [probe, ...more] = takeAll(lanes, openMsMin);
  assert.ok(probe !== undefined);
  assert.deepEqual(more, []);
  const now = { ...start, monotonicMs: openMsMin };
  assert.equal(lanes.end(probe, "answered", now).turned, "answering");
  assert.equal(takeAll(lanes, openMsMin).length, 6);
});

test("what waited for a silent endpoint longer than its tries is given up with the next probe", () => {
  const late = { overMs: start.wallMs };
  const lanes = setup({ perNewEndpointMax: silentMax }, [...many(3), ...many(2, late), ...many(1)]);
  const [over] = takeAll(lanes)
    .map((each) => lanes.end(each, "unanswered", start).over)
    .slice(2);
  assert.equal(over?.length, 2);
  assert.equal(lanes.add(callback(late), start), "over");
  assert.equal(lanes.add(callback(), start), "added");
  assert.equal(setup({}, []).add(callback(late), start), "added");
});

test("what finds no room in its lane is read again, from the first of it on", () => {
  const lanes = setup({ laneWaitingMax: 4, perNewEndpointMax: 100 }, []);
  const all = many(10);
  const added = all.map((each) => lanes.add(each, start));
  assert.deepEqual(added.slice(3, 6), ["added", "left", "left"]);
  assert.equal(lanes.readAgain(), undefined);
  assert.equal(lanes.add(callback({ endpoint: "http://b" }), start), "added");
  takeAll(lanes);
  assert.equal(lanes.nextMs(0), 0);
  const again = lanes.readAgain();
  assert.equal(again?.from, all[4]?.key);
  assert.equal(again?.isDone(), false);
  assert.deepEqual(
    all.slice(4).map((each) => lanes.add(each, start)),
    ["added", "added", "added", "added", "left", "left"],
  );
  assert.equal(again?.isDone(), true);
});

test("a tenant with too much in memory leaves the rest, whatever its endpoints", () => {
  const lanes = setup({ tenantWaitingMax: 4 }, []);
  const all = Array.from({ length: 6 }, (_, n) => callback({ endpoint: `http://${n}` }));
  assert.deepEqual(all.map((each) => lanes.add(each, start)).slice(3), ["added", "left", "left"]);
  assert.equal(lanes.add(callback({ tenantId: "globex" as TenantId }), start), "added");
  takeAll(lanes);
  assert.equal(lanes.readAgain()?.from, all[4]?.key);
});

test("a callback that was put back is read again while its lane waits", () => {
  const one = callback();
  const lanes = setup({}, [one]);
  assert.equal(lanes.take(0), one);
  assert.ok(lanes.has(one.key));
  lanes.putBack(one, start, 700);
  assert.equal(lanes.has(one.key), false);
  assert.equal(lanes.readAgain()?.from, one.key);
  assert.equal(lanes.add(one, start), "added");
  assert.deepEqual([lanes.take(699), lanes.nextMs(0)], [undefined, 700]);
  assert.equal(lanes.take(700), one);
});

test("lanes without callbacks are remembered up to a limit", () => {
  const lanes = setup({ idleLanesMax: 1, perNewEndpointMax: silentMax }, many(silentMax));
  for (const each of takeAll(lanes)) lanes.end(each, "unanswered", start);
  assert.equal(lanes.add(callback({ overMs: 0 }), start), "over");
  const other = callback({ endpoint: "http://b" });
  lanes.add(other, start);
  lanes.take(0);
  lanes.end(other, "answered", start);
  assert.equal(lanes.add(callback({ overMs: 0 }), start), "added");
});

test("several shards together have as many callbacks on their way as one, and each has a slot", () => {
  const crowd = Array.from({ length: 200 }, (_, tenant) =>
    many(1, { tenantId: `tenant${tenant}` as TenantId }),
  ).flat();
  const startedBy = (shards: number): number =>
    takeAll(setup(laneLimitsOfShard(shards), crowd)).length;
  const alone = startedBy(1);
  assert.equal(alone, takeAll(setup({}, crowd)).length);
  for (const shards of [2, 3, 4, 8, 16, 64]) {
    const started = startedBy(shards);
    assert.ok(started >= 1 && started * shards <= alone, `${shards} shards start ${started} each`);
    // An endpoint that nobody knows yet gets its try, too.
    assert.equal(takeAll(setup(laneLimitsOfShard(shards), many(1))).length, 1);
  }
});
