import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type Identity,
  producerAsWorkerOf,
  producerOf,
  readerOf,
  workerOf,
  workerScopes,
} from "./identity.ts";
import { type Claims, neverRevoked } from "./token-provider.ts";

function claims(more: Partial<Claims> = {}): Claims {
  return {
    subject: "shop",
    scopes: [],
    eventTypes: [],
    raw: {},
    expiresMs: undefined,
    issuedBy: "test",
    isRevoked: neverRevoked,
    ...more,
  };
}

function producer(more: Partial<Claims> = {}): Identity {
  const identity = producerOf(claims(more));
  assert.ok(identity.ok);
  return identity.value;
}

test("roles make admins and operators, in either claim and whatever the case", () => {
  for (const [raw, isAdmin, isOperator] of [
    [{}, false, false],
    [{ role: "ADMIN" }, true, false],
    [{ role: " admin " }, true, false],
    [{ role: "Operator" }, true, true],
    [{ role: "user" }, false, false],
    [{ role: "administrator" }, false, false],
    [{ roles: ["user", "Admin"] }, true, false],
    [{ roles: ["OPERATOR"] }, true, true],
    [{ role: "user", roles: ["operator"] }, true, true],
    [{ role: ["admin"] }, true, false],
    [{ roles: [] }, false, false],
    [{ role: null, roles: null }, false, false],
  ] as const) {
    const identity = producer({ raw });
    assert.deepEqual([identity.isAdmin, identity.isOperator], [isAdmin, isOperator]);
  }
});

test("scopes make admins and operators too", () => {
  assert.equal(producer({ scopes: ["codeq:admin"] }).isAdmin, true);
  assert.equal(producer({ scopes: ["codeq:admin"] }).isOperator, false);
  assert.deepEqual(
    [producer({ scopes: ["codeq:operator"] })].map((one) => [one.isAdmin, one.isOperator]),
    [[true, true]],
  );
  assert.equal(producer({ scopes: ["CODEQ:ADMIN", "admin", "codeq:admin:read"] }).isAdmin, false);
});

test("a claim that is not what it should be refuses the token", () => {
  for (const raw of [
    { role: 7 },
    { role: { admin: true } },
    { roles: 7 },
    { roles: ["admin", 7] },
    { roles: { 0: "admin" } },
    { commands: "render" },
    { commands: [7] },
    { commands: { render: true } },
    { commands: null },
  ]) {
    const refused = { ok: false, code: "invalid_claims" };
    const given = claims({ raw, scopes: ["codeq:claim"], eventTypes: ["*"] });
    for (const identityOf of [producerOf, workerOf, producerAsWorkerOf, readerOf]) {
      assert.deepEqual(identityOf(given), refused, JSON.stringify(raw));
    }
  }
});

test("S13: a token without scopes of ours creates; one with some needs the scope for it", () => {
  const may = (...scopes: string[]) => producer({ scopes }).scopes.has("codeq:create");
  assert.equal(may(), true);
  assert.equal(may("openid", "profile"), true);
  assert.equal(may("codeq:create"), true);
  assert.equal(may("openid", "codeq:claim"), false);
  assert.equal(may("codeq:admin"), false);
  assert.equal(may("codeq:whatever"), false);
});

test("S13: commands limit what a producer creates, else its event types, else nothing does", () => {
  const creates = (more: Partial<Claims>) => {
    const limited = producer(more).creates;
    return limited === undefined ? "all" : [...limited];
  };
  assert.equal(creates({}), "all");
  assert.deepEqual(creates({ eventTypes: ["Render"] }), ["render"]);
  assert.equal(creates({ eventTypes: ["*"] }), "all");
  assert.deepEqual(creates({ raw: { commands: ["A", " b "] } }), ["a", "b"]);
  assert.deepEqual(creates({ raw: { commands: ["a"] }, eventTypes: ["*"] }), ["a"]);
  assert.equal(creates({ raw: { commands: ["*"] }, eventTypes: ["a"] }), "all");
  assert.deepEqual(creates({ raw: { commands: [] } }), []);
});

test("a worker needs an event type and a scope, a reader no scope", () => {
  const scopes = ["codeq:claim"];
  const eventTypes = ["Render"];
  assert.deepEqual(workerOf(claims({ scopes })), { ok: false, code: "missing_event_types" });
  assert.deepEqual(workerOf(claims({ eventTypes })), { ok: false, code: "missing_worker_scope" });
  assert.deepEqual(readerOf(claims({ scopes })), { ok: false, code: "invalid_token" });
  assert.ok(readerOf(claims({ eventTypes })).ok);
  const worker = workerOf(claims({ scopes, eventTypes }));
  assert.ok(worker.ok);
  assert.deepEqual([[...worker.value.scopes], worker.value.eventTypes], [scopes, ["render"]]);
});

test("a producer as a worker has all scopes of workers and every event type, and its own tenant", () => {
  const worker = producerAsWorkerOf(
    claims({ raw: { tenantId: "acme" }, scopes: ["codeq:create"], eventTypes: ["render"] }),
  );
  assert.ok(worker.ok);
  for (const scope of workerScopes) assert.ok(worker.value.scopes.has(scope));
  assert.deepEqual([worker.value.eventTypes, worker.value.tenantId], [["*"], "acme"]);
});

test("the tenant is what all claims agree on, and a bad one is never passed over", () => {
  const names = ["tid", "tenantId", "tenant_id", "organizationId", "organization_id"];
  const good = fc.constantFrom("acme", " acme ");
  const bad = fc.constantFrom("globex", "ACME", "a", "", 7, null, ["acme"], {}, "acme/x", "1a");
  const claim = fc.tuple(fc.constantFrom(...names), fc.oneof(good, bad));
  fc.assert(
    fc.property(fc.array(claim, { maxLength: 4 }), (pairs) => {
      const raw = Object.fromEntries(pairs);
      const values = Object.values(raw);
      const identity = producerOf(claims({ raw, subject: "acme" }));
      const agree = values.every((value) => typeof value === "string" && value.trim() === "acme");
      const allGlobex = values.length > 0 && values.every((value) => value === "globex");
      if (agree) assert.ok(identity.ok && identity.value.tenantId === "acme");
      else if (allGlobex) assert.ok(identity.ok && identity.value.tenantId === "globex");
      else assert.deepEqual(identity, { ok: false, code: "invalid_tenant" });
    }),
  );
});

test("without a tenant claim every printable subject has a tenant of its own, or all share one", () => {
  const tenant = (subject: string, fallback?: "subject" | "shared") => {
    const identity = producerOf(claims({ subject }), fallback);
    return identity.ok ? identity.value.tenantId : identity.code;
  };
  assert.equal(tenant("shop"), "shop");
  const odd = [
    "auth0|x",
    "ann@shop.example",
    "Shop",
    "7f2c",
    "s",
    "Jos\u00e9",
    `x${"y".repeat(200)}`,
  ];
  const derived = odd.map((subject) => tenant(subject));
  for (const name of derived) assert.match(name, /^subject-[0-9a-f]{40}$/);
  assert.equal(new Set(derived).size, odd.length);
  assert.equal(tenant(" auth0|x "), derived[0]);
  for (const bad of ["", " ", "a\u0000b", "a\nb", "x".repeat(513)]) {
    assert.equal(tenant(bad), "invalid_tenant", JSON.stringify(bad));
  }
  for (const subject of ["shop", "auth0|x"]) assert.equal(tenant(subject, "shared"), "shared");
  const named = producerOf(claims({ raw: { tenantId: "acme" } }), "shared");
  assert.ok(named.ok && named.value.tenantId === "acme");
  const malformed = producerOf(claims({ raw: { tenantId: "Not One" } }), "shared");
  assert.deepEqual(malformed, { ok: false, code: "invalid_tenant" });
});
