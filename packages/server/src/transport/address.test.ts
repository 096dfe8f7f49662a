import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf } from "./address.ts";

test("an address is shown without port and brackets, and IPv4 as such", () => {
  for (const [peer, address] of [
    ["192.0.2.1", "192.0.2.1"],
    ["192.0.2.1:5000", "192.0.2.1"],
    ["[2001:db8::1]:5000", "2001:db8::1"],
    ["2001:db8::1", "2001:db8::1"],
    ["::1", "::1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["[::ffff:192.0.2.1]:5000", "192.0.2.1"],
    ["::ffff:c000:201", "::ffff:c000:201"],
    ["unknown", "unknown"],
    ["", ""],
  ] as const) {
    assert.equal(addressOf(peer), address, peer);
  }
});
