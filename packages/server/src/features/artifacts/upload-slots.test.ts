import assert from "node:assert/strict";
import test from "node:test";
import type { TenantId } from "@codeq/queue";
import { SimClock, settle } from "@codeq/simulated";
import { UploadSlots } from "./artifacts.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;

function setup(max: number) {
  const clock = new SimClock();
  const slots = new UploadSlots(max, clock);
  const taken: string[] = [];
  const take = (tenantId: TenantId): void => {
    void slots.take(tenantId).then((isTaken) => taken.push(`${tenantId} ${isTaken}`));
  };
  return { clock, slots, taken, take };
}

test("one tenant has at most half of the slots, and the others have the rest", () => {
  const { slots } = setup(4);
  assert.deepEqual(
    [acme, acme, acme, globex, globex].map((each) => slots.takeNow(each)),
    [true, true, false, true, true],
  );
  slots.giveBack(acme);
  assert.deepEqual([slots.takeNow(globex), slots.takeNow(acme)], [false, true]);
});

test("who waits gets what is given back, and tenants take turns", async () => {
  const { clock, slots, taken, take } = setup(2);
  for (const each of [acme, acme, acme, globex, globex]) take(each);
  await settle();
  assert.deepEqual(taken.splice(0), ["acme true", "globex true"]);
  slots.giveBack(globex);
  await settle();
  assert.deepEqual(
    taken.splice(0),
    ["globex true"],
    "the tenant that has its share is passed over",
  );
  slots.giveBack(acme);
  slots.giveBack(globex);
  await settle();
  assert.deepEqual(taken.splice(0), ["acme true"]);
  slots.giveBack(acme);
  await settle();
  assert.deepEqual([taken, clock.timers], [["acme true"], 0]);
});

test("who waits too long gets none, and takes none later", async () => {
  const { clock, slots, taken, take } = setup(1);
  take(acme);
  take(globex);
  await clock.advance(9999);
  assert.deepEqual(taken, ["acme true"]);
  await clock.advance(1);
  assert.deepEqual(taken, ["acme true", "globex false"]);
  slots.giveBack(acme);
  assert.equal(slots.takeNow(acme), true);
});
