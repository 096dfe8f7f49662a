import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { SimClock } from "../../../exports/simulated/sim-clock.ts";
import { Leases } from "./leases.ts";

function leased(id: number, tenantId: TenantId): Task {
  const place = { in: "leased", workerId: "w" as WorkerId, untilMs: id, leaseMs: 1000, sinceMs: 0 };
  return { id: String(id) as TaskId, tenantId, updatedMs: 0, place } as Task;
}

test("the leases of a tenant are those that began and have not ended, in any order", () => {
  const tenants = ["a", "b", "c"] as TenantId[];
  const steps = fc.array(fc.record({ tenant: fc.nat(2), ends: fc.boolean(), which: fc.nat() }));
  fc.assert(
    fc.property(steps, (all) => {
      const leases = new Leases(new SimClock());
      const held = new Map<TenantId, Set<number>>(tenants.map((each) => [each, new Set()]));
      for (const [number, { tenant, ends, which }] of all.entries()) {
        const tenantId = tenants[tenant] as TenantId;
        const ids = held.get(tenantId) as Set<number>;
        if (ends && ids.size > 0) {
          const id = [...ids][which % ids.size] as number;
          ids.delete(id);
          leases.remove(String(id) as TaskId);
        } else {
          ids.add(number);
          leases.add(leased(number, tenantId), 0);
        }
        for (const [each, expected] of held) {
          const found = Array.from(leases.ofTenant(each), ({ id }) => Number(id));
          assert.deepEqual(new Set(found), expected);
          assert.equal(found.length, expected.size);
        }
      }
      leases.clear();
      assert.deepEqual([...leases.ofTenant("a" as TenantId)], []);
    }),
  );
});
