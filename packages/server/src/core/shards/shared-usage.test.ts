import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import { noQuotas, type Quotas, type TenantQuota } from "../../config/quotas.ts";
import { SharedUsage } from "./shared-usage.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;

function quota(fields: Partial<TenantQuota>): Quotas {
  return { ...noQuotas, tenants: new Map([["acme", { ...noQuotas.default, ...fields }]]) };
}

const held = { pending: 0, leased: 0, storedBytes: 0 };

test("what a shard has told and what is on its way are added up, and nothing twice", () => {
  const usage = new SharedUsage(quota({ pendingTasks: 3 }), 2);
  usage.report(0, acme, { ...held, pending: 1 });
  usage.send(0, 1, acme, { pending: 1 });
  usage.send(1, 1, acme, { pending: 1 });
  assert.deepEqual(usage.quotas.exceededByTask(acme, 1), {
    quota: "pendingTasks",
    limit: 3,
    current: 3,
  });
  // Carried out: what the shard told has it.
  usage.report(0, acme, { ...held, pending: 2 });
  usage.carriedOut(0, 1, []);
  assert.equal(usage.quotas.exceededByTask(acme, 1)?.current, 3);
  // It came to nothing, as a key that was known does.
  usage.carriedOut(1, 1, []);
  assert.equal(usage.quotas.exceededByTask(acme, 1), undefined);
  assert.equal(usage.quotas.exceededByTask(globex, 1e9), undefined);
});

test("bytes fit to the last one", () => {
  const usage = new SharedUsage(quota({ storedBytes: 100 }), 2);
  usage.report(1, acme, { ...held, storedBytes: 40 });
  usage.send(0, 1, acme, { storedBytes: 30 });
  assert.equal(usage.quotas.exceededByTask(acme, 30), undefined);
  assert.deepEqual(usage.quotas.exceededByTask(acme, 31), {
    quota: "storedBytes",
    limit: 100,
    current: 70,
  });
});

test("leases of a claim that is not decided count until it is", () => {
  const usage = new SharedUsage(quota({ concurrentLeases: 5 }), 1);
  usage.send(0, 1, acme, { leased: 3 });
  usage.send(0, 2, acme, { leased: 1 });
  assert.equal(usage.quotas.leasesLeft(acme), 1);
  usage.report(0, acme, { ...held, leased: 1 });
  usage.carriedOut(0, 2, [1]);
  assert.equal(usage.quotas.leasesLeft(acme), 1);
  usage.report(0, acme, { ...held, leased: 3 });
  usage.carriedOut(0, 2, []);
  assert.equal(usage.quotas.leasesLeft(acme), 2);
  assert.equal(usage.quotas.exceededByLease(acme), undefined);
  usage.send(0, 3, acme, { leased: 2 });
  assert.deepEqual(usage.quotas.exceededByLease(acme), {
    quota: "concurrentLeases",
    limit: 5,
    current: 5,
  });
});

test("a shard that is started again tells anew, and what was on its way to it is gone", () => {
  const usage = new SharedUsage(quota({ pendingTasks: 2 }), 2);
  usage.report(0, acme, { ...held, pending: 1 });
  usage.send(0, 7, acme, { pending: 1 });
  assert.notEqual(usage.quotas.exceededByTask(acme, 0), undefined);
  usage.forgetSent(0);
  usage.forget(0);
  usage.report(1, acme, { ...held, pending: 1 });
  assert.equal(usage.quotas.exceededByTask(acme, 0), undefined);
  usage.carriedOut(0, 7, []);
  assert.equal(usage.quotas.exceededByTask(acme, 0), undefined);
});

test("without quotas nothing is counted", () => {
  const usage = new SharedUsage(noQuotas, 1);
  assert.equal(usage.quotas.isLimited, false);
  usage.send(0, 1, acme, { pending: 1e12 });
  assert.equal(usage.quotas.exceededByTask(acme, 1e12), undefined);
  assert.equal(usage.quotas.leasesLeft(acme), Number.POSITIVE_INFINITY);
});
