import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import { noQuotas, type Quotas, type TenantQuota } from "../../config/quotas.ts";
import { SharedRoom } from "./shared-room.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;

function quota(fields: Partial<TenantQuota>): Quotas {
  return { ...noQuotas, tenants: new Map([["acme", { ...noQuotas.default, ...fields }]]) };
}

const held = { pending: 0, leased: 0, storedBytes: 0 };

test("what a shard has told and what is on its way are added up, and nothing twice", () => {
  const room = new SharedRoom(quota({ pendingTasks: 3 }), 2);
  room.tell(0, acme, { ...held, pending: 1 });
  room.send(0, 1, acme, { pending: 1 });
  room.send(1, 1, acme, { pending: 1 });
  assert.deepEqual(room.exceededByTask(acme, 1), { quota: "pendingTasks", limit: 3, current: 3 });
  // Carried out: what the shard told has it.
  room.tell(0, acme, { ...held, pending: 2 });
  room.carriedOut(0, 1, []);
  assert.equal(room.exceededByTask(acme, 1)?.current, 3);
  // It came to nothing, as a key that was known does.
  room.carriedOut(1, 1, []);
  assert.equal(room.exceededByTask(acme, 1), undefined);
  assert.equal(room.exceededByTask(globex, 1e9), undefined);
});

test("bytes fit to the last one", () => {
  const room = new SharedRoom(quota({ storedBytes: 100 }), 2);
  room.tell(1, acme, { ...held, storedBytes: 40 });
  room.send(0, 1, acme, { storedBytes: 30 });
  assert.equal(room.exceededByTask(acme, 30), undefined);
  assert.deepEqual(room.exceededByTask(acme, 31), {
    quota: "storedBytes",
    limit: 100,
    current: 70,
  });
});

test("leases of a claim that is not decided count until it is", () => {
  const room = new SharedRoom(quota({ concurrentLeases: 5 }), 1);
  room.send(0, 1, acme, { leased: 3 });
  room.send(0, 2, acme, { leased: 1 });
  assert.equal(room.leases(acme), 1);
  room.tell(0, acme, { ...held, leased: 1 });
  room.carriedOut(0, 2, [1]);
  assert.equal(room.leases(acme), 1);
  room.tell(0, acme, { ...held, leased: 3 });
  room.carriedOut(0, 2, []);
  assert.equal(room.leases(acme), 2);
  assert.equal(room.exceededByLease(acme), undefined);
  room.send(0, 3, acme, { leased: 2 });
  assert.deepEqual(room.exceededByLease(acme), {
    quota: "concurrentLeases",
    limit: 5,
    current: 5,
  });
});

test("a shard that is started again tells anew, and what was on its way to it is gone", () => {
  const room = new SharedRoom(quota({ pendingTasks: 2 }), 2);
  room.tell(0, acme, { ...held, pending: 1 });
  room.send(0, 7, acme, { pending: 1 });
  assert.notEqual(room.exceededByTask(acme, 0), undefined);
  room.forgetSent(0);
  room.forget(0);
  room.tell(1, acme, { ...held, pending: 1 });
  assert.equal(room.exceededByTask(acme, 0), undefined);
  room.carriedOut(0, 7, []);
  assert.equal(room.exceededByTask(acme, 0), undefined);
});

test("without quotas nothing is counted", () => {
  const room = new SharedRoom(noQuotas, 1);
  assert.equal(room.isLimited, false);
  room.send(0, 1, acme, { pending: 1e12 });
  assert.equal(room.exceededByTask(acme, 1e12), undefined);
  assert.equal(room.leases(acme), Number.POSITIVE_INFINITY);
});
