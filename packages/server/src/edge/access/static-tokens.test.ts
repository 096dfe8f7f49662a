import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { StaticTokens } from "./providers.ts";
import { fingerprintOf } from "./token-provider.ts";

const token = "9f8e7d6c5b4a39281706f5e4d3c2b1a0";

function setup(): StaticTokens {
  const common = { email: "", scopes: ["a"], eventTypes: ["b"], raw: { tenantId: "acme" } };
  return new StaticTokens([
    { ...common, token, subject: "one" },
    { ...common, token: `${token}${token}`, subject: "two" },
    { ...common, token: "short-lived", subject: "three", raw: { exp: 1234 } },
  ]);
}

test("a token stands for what the configuration says of it", () => {
  const verified = setup().verify(token);
  assert.ok(verified.ok);
  const { isRevoked, ...claims } = verified.value;
  assert.deepEqual(claims, {
    subject: "one",
    scopes: ["a"],
    eventTypes: ["b"],
    raw: { tenantId: "acme" },
    expiresMs: undefined,
    issuedBy: "configuration",
  });
  assert.equal(isRevoked(), false);
});

test("a token may have an end", () => {
  const verified = setup().verify("short-lived");
  assert.equal(verified.ok && verified.value.expiresMs, 1_234_000);
});

test("S10: a token is accepted as a whole only", () => {
  const tokens = setup();
  for (let length = 0; length < token.length; length += 1) {
    assert.deepEqual(tokens.verify(token.slice(0, length)), { ok: false, code: "invalid_token" });
  }
  fc.assert(
    fc.property(fc.string(), fc.nat(token.length), (text, at) => {
      const changed = token.slice(0, at) + text + token.slice(at + text.length);
      fc.pre(changed !== token && changed !== `${token}${token}`);
      assert.equal(tokens.verify(changed).ok, false);
    }),
  );
});

test("S10: what is compared tells nothing about how much of a token was guessed", () => {
  const compared = fingerprintOf(token);
  fc.assert(
    fc.property(
      fc.nat(token.length - 1),
      fc.string({ minLength: 1, maxLength: 64 }),
      (at, rest) => {
        const guess = `${token.slice(0, at)}${rest}`;
        fc.pre(guess !== token);
        const other = fingerprintOf(guess);
        assert.equal(other.length, compared.length);
        const shared = [...other].findIndex((letter, index) => letter !== compared[index]);
        assert.ok(shared < 12, `${guess} shares ${shared} characters of the hash`);
      },
    ),
    { numRuns: 2000 },
  );
});
