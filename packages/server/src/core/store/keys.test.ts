import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId, TenantId } from "@codeq/queue";
import fc from "fast-check";
import {
  countsKey,
  deadPrefix,
  delayedPrefix,
  endOf,
  idempotencyKeyOf,
  idOf,
  inProgressPrefix,
  lanePrefix,
  numberOf,
  parseIndexKey,
  pendingPrefix,
  queuePrefix,
  retentionKey,
  retentionPrefix,
  sortable,
  webhookKey,
} from "./keys.ts";

const id = "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId;

/** Names as the edge lets them through, the awkward ones among them. */
const tenants = ["", "acme", "pending", "inprog", "delayed", "dlq", "a-b", "z9"] as TenantId[];
const queues = ["work", "pending", "inprog", "delayed", "dlq", "a.b:c_d-e", "0", "z".repeat(128)];

test("the order of sortable numbers is the order of the numbers", () => {
  const number = fc.oneof(fc.nat(), fc.maxSafeNat(), fc.constantFrom(0, Number.MAX_SAFE_INTEGER));
  fc.assert(
    fc.property(number, number, (a, b) => {
      assert.equal(sortable(a) < sortable(b), a < b);
      assert.equal(sortable(a).length, 14);
      assert.equal(Number.parseInt(sortable(a), 16), a);
    }),
  );
});

test("a number and an id are read back from every key that has them", () => {
  for (const ms of [0, 1, 1_700_000_000_000, Number.MAX_SAFE_INTEGER]) {
    const prefix = queuePrefix("work", "acme" as TenantId);
    const keys = [
      `${pendingPrefix(prefix, 3)}${sortable(ms)}/${id}`,
      `${delayedPrefix(prefix)}${sortable(ms)}/${id}`,
      retentionKey(ms, id),
      webhookKey(ms, id),
    ];
    for (const key of keys) assert.deepEqual([numberOf(key), idOf(key)], [ms, id], key);
  }
});

test("D24: commands and tenants named like an index are read back like any other", () => {
  for (const queue of queues) {
    for (const tenantId of tenants) {
      const prefix = queuePrefix(queue, tenantId);
      const keys = {
        pending: `${pendingPrefix(prefix, 7)}${sortable(5)}/${id}`,
        "pending in a lane": `${lanePrefix(prefix, "a/é", 7)}${sortable(5)}/${id}`,
        delayed: `${delayedPrefix(prefix)}${sortable(5)}/${id}`,
        inprog: inProgressPrefix(prefix) + id,
        dlq: deadPrefix(prefix) + id,
      };
      for (const [kind, key] of Object.entries(keys)) {
        const priority = kind.startsWith("pending") ? 7 : 0;
        const lane = kind === "pending in a lane" ? "a/é" : "";
        const expected = { queue, tenantId, kind: kind.split(" ")[0], priority, lane };
        assert.deepEqual(parseIndexKey(key), expected);
      }
    }
  }
});

test("no two queues share a prefix, nor does one lie inside another", () => {
  const prefixes = queues.flatMap((queue) => tenants.map((tenant) => queuePrefix(queue, tenant)));
  for (const a of prefixes) {
    for (const b of prefixes) if (a !== b) assert.ok(!a.startsWith(b), `${a} is inside ${b}`);
  }
  assert.equal(new Set(queues.flatMap((q) => tenants.map((t) => countsKey(q, t)))).size, 64);
});

test("one ascending walk over pending yields priority 9 first, then who came first", () => {
  const prefix = queuePrefix("work", "" as TenantId);
  const wanted = [9, 8, 5, 1, 0].flatMap((priority) =>
    [1, 2, 300, 70_000].map((seq) => `${pendingPrefix(prefix, priority)}${sortable(seq)}/${id}`),
  );
  assert.deepEqual(wanted.toSorted(), wanted);
});

test("a range from a prefix to its end holds what continues the prefix, and nothing else", () => {
  const inside = (key: string, prefix: string): boolean => key > prefix && key < endOf(prefix);
  for (const queue of queues) {
    const prefix = pendingPrefix(queuePrefix(queue, "acme" as TenantId), 4);
    assert.ok(inside(`${prefix}${sortable(0)}/${id}`, prefix));
    assert.ok(inside(`${prefix}${sortable(Number.MAX_SAFE_INTEGER)}/${id}`, prefix));
    assert.ok(!inside(`${pendingPrefix(queuePrefix(queue, "acme" as TenantId), 3)}0`, prefix));
  }
  assert.ok(inside(retentionKey(1, id), retentionPrefix));
  assert.ok(!inside(webhookKey(1, id), retentionPrefix));
});

test("idempotency keys of any text are printable ASCII, and different for different texts", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" }), (a, b) => {
      const keyA = idempotencyKeyOf("acme" as TenantId, a);
      assert.match(keyA, /^codeq\/idempo\/acme\/[!-~]*$/);
      assert.equal(keyA.split("/").length, 4);
      assert.equal(keyA === idempotencyKeyOf("acme" as TenantId, b), a === b);
      assert.notEqual(keyA, idempotencyKeyOf("" as TenantId, a));
    }),
  );
});
