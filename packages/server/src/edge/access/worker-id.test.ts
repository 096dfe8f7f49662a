import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { workerIdOf } from "./identity.ts";

test("a worker without a name is its subject", () => {
  assert.equal(workerIdOf("worker-dev", ""), "worker-dev");
  assert.equal(workerIdOf("worker-dev", "worker-dev"), "worker-dev");
});

test("a name is bound to the subject", () => {
  assert.equal(workerIdOf("worker-dev", "slot 1"), "~slot%201@worker-dev");
});

test("two subjects never share an id, whatever names they choose", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "@", "~", "%", "4", "0") });
  fc.assert(
    fc.property(text, text, text, text, (subject, name, otherSubject, otherName) => {
      fc.pre(subject !== otherSubject && subject !== "" && otherSubject !== "");
      assert.notEqual(workerIdOf(subject, name), workerIdOf(otherSubject, otherName));
    }),
    { numRuns: 2000 },
  );
});
