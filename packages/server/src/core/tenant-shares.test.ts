import assert from "node:assert/strict";
import test from "node:test";
import type { TenantId } from "@codeq/queue";
import { TenantShares } from "./tenant-shares.ts";

const [acme, globex, umbrella] = ["acme", "globex", "umbrella"] as TenantId[] as [
  TenantId,
  TenantId,
  TenantId,
];

test("a tenant may hold half, rounded up, and all tenants together the whole", () => {
  const shares = new TenantShares(5);
  for (let held = 0; held < 3; held++) {
    assert.ok(shares.hasRoomFor(acme));
    shares.add(acme, 1);
  }
  assert.deepEqual([shares.hasRoomFor(acme), shares.hasRoomFor(globex)], [false, true]);
  shares.add(globex, 1);
  shares.add(globex, 1);
  assert.deepEqual([shares.held, shares.hasRoomFor(umbrella)], [5, false]);
  shares.add(acme, -1);
  assert.ok(shares.hasRoomFor(acme) && shares.hasRoomFor(umbrella));
});

test("a share of one goes to whoever comes first", () => {
  const shares = new TenantShares(1);
  assert.ok(shares.hasRoomFor(acme));
  shares.add(acme, 1);
  assert.ok(!shares.hasRoomFor(acme) && !shares.hasRoomFor(globex));
});
