import assert from "node:assert/strict";
import { test } from "node:test";
import { operations } from "../../start/features.ts";
import { isForAdmins } from "../access/authenticator.ts";

test("every operation of administrators says what is recorded of it", () => {
  for (const { name, access, audit } of Object.values(operations)) {
    assert.equal(audit !== undefined, isForAdmins(access), name);
    // What only shows something is called so; everything else changes something.
    const of = /^(list|get|inspect|explain|preview|download|watch)_/.test(name)
      ? "other tenants"
      : "all";
    if (audit !== undefined) assert.equal(audit.of, of, name);
  }
});
