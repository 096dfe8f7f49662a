import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import { InFlight, type Input } from "./in-flight.ts";

const acme = "acme" as TenantId;
const umbrella = "umbrella" as TenantId;

function setup(): {
  inFlight: InFlight;
  cut: string[];
  open: (of: TenantId, name: string) => Input;
} {
  const inFlight = new InFlight({ bytesMax: 100, tenantBytesMax: 60 });
  const cut: string[] = [];
  return { inFlight, cut, open: (of, name) => inFlight.open(of, () => void cut.push(name)) };
}

test("a tenant beyond its share loses its oldest unfinished input", () => {
  const { inFlight, cut, open } = setup();
  const [first, second, third] = [open(acme, "a"), open(acme, "b"), open(acme, "c")];
  first.hold(30);
  second.hold(30);
  assert.deepEqual(cut, []);
  third.hold(10);
  assert.deepEqual(cut, ["a"]);
  assert.equal(inFlight.bytes, 40);
  assert.equal(inFlight.cuts, 1);
});

test("beyond the limit of the process, the tenant that has the most makes room", () => {
  const { inFlight, cut, open } = setup();
  open(acme, "a").hold(55);
  open(umbrella, "u").hold(20);
  const other = open("other" as TenantId, "o");
  other.hold(20);
  assert.deepEqual(cut, []);
  other.hold(30);
  assert.deepEqual(cut, ["a"]);
  assert.equal(inFlight.bytes, 50);
});

test("input that is whole is never cut off; without other input the newest is refused", () => {
  const { inFlight, cut, open } = setup();
  const whole = open(acme, "whole");
  whole.hold(60);
  whole.finish();
  open(acme, "late").hold(1);
  assert.deepEqual(cut, ["late"]);
  whole.hold(0);
  assert.equal(inFlight.bytes, 0);
  open(acme, "next").hold(60);
  assert.deepEqual(cut, ["late"]);
});

test("a tenant is crowded when half of a limit is taken", () => {
  const { inFlight, open } = setup();
  const input = open(acme, "a");
  input.hold(30);
  assert.deepEqual([inFlight.isCrowded(acme), inFlight.isCrowded(umbrella)], [false, false]);
  input.hold(31);
  assert.deepEqual([inFlight.isCrowded(acme), inFlight.isCrowded(umbrella)], [true, false]);
  open(umbrella, "u").hold(20);
  assert.deepEqual([inFlight.isCrowded(acme), inFlight.isCrowded(umbrella)], [true, true]);
});
