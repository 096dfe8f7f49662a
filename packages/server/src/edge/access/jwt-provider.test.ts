import assert from "node:assert/strict";
import { createHmac, createPublicKey } from "node:crypto";
import { test } from "node:test";
import { SimClock, SimIssuer, type TokenOptions } from "@codeq/simulated";
import fc from "fast-check";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { KeySet } from "./key-set.ts";
import { JwtProvider } from "./providers.ts";
import { type Claims, Revocations } from "./token-provider.ts";

const startMs = 1_700_000_000_000;
const startSeconds = startMs / 1000;

const issuer = new SimIssuer()
  .addKey("rs256", "RS256")
  .addKey("rs384", "RS384")
  .addKey("rs512", "RS512")
  .addKey("es256", "ES256")
  .addKey("ed", "EdDSA");

interface Bench {
  readonly clock: SimClock;
  readonly provider: JwtProvider;
  /** `accepted`, or the code of the refusal. */
  readonly verify: (claims: object, options?: TokenOptions) => Promise<string>;
}

function setup(clockSkewMs = 60_000, from: SimIssuer = issuer): Bench {
  const clock = new SimClock({ wallMs: startMs });
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => 0,
    write: () => {},
  });
  const keys = new KeySet(
    {
      jwksUrl: "https://id.example.com/keys",
      httpTimeoutMs: 5000,
      refreshMs: 300_000,
      staleMs: 3_600_000,
      refetchMs: 10_000,
    },
    {
      clock,
      logger,
      metrics: createMetrics({ commandsMax: 1 }),
      revocations: new Revocations(),
      fetchKeySet: async () => from.keySet(),
    },
  );
  const config = { issuer: from.issuer, audience: "codeq", clockSkewMs };
  const provider = new JwtProvider(config, { keys, clock });
  return {
    clock,
    provider,
    verify: async (claims, options) => {
      const verified = await provider.verify(from.token({ ...good, ...claims }, options));
      return verified.ok ? "accepted" : verified.code;
    },
  };
}

const good = { sub: "shop", aud: "codeq", exp: startSeconds + 600 };

async function claimsOf(claims: object): Promise<Claims> {
  const verified = await setup().provider.verify(issuer.token({ ...good, ...claims }));
  assert.ok(verified.ok, verified.ok ? "" : verified.code);
  return verified.value;
}

test("tokens of every algorithm are accepted", async () => {
  const { verify } = setup();
  for (const kid of ["rs256", "rs384", "rs512", "es256", "ed"]) {
    assert.equal(await verify({}, { kid }), "accepted", kid);
  }
});

test("what a token claims is what its bearer is known by", async () => {
  const claims = await claimsOf({
    scope: "openid codeq:claim",
    eventTypes: ["render"],
    tenantId: "acme",
  });
  const { subject, scopes, eventTypes, expiresMs, issuedBy, raw } = claims;
  assert.deepEqual([subject, scopes, eventTypes], ["shop", ["openid", "codeq:claim"], ["render"]]);
  assert.equal(expiresMs, (startSeconds + 600) * 1000 + 60_000);
  assert.equal(issuedBy, "issuer https://id.example.com");
  assert.equal(raw["tenantId"], "acme");
  assert.equal(claims.isRevoked(), false);
});

test("scopes are read in each of the ways in which issuers write them", async () => {
  for (const [written, scopes] of [
    [{}, []],
    [{ scope: "" }, []],
    [{ scope: " a  b " }, ["a", "b"]],
    [{ scopes: ["a", "b"] }, ["a", "b"]],
    [{ scp: ["a"] }, ["a"]],
    [{ scp: "a b" }, ["a", "b"]],
    [{ scope: "a", scopes: ["b"], scp: "c" }, ["a", "b", "c"]],
  ] as const) {
    assert.deepEqual((await claimsOf(written)).scopes, scopes);
  }
});

test("claims of the wrong kind refuse the token", async () => {
  const { verify } = setup();
  for (const claims of [
    { sub: undefined },
    { sub: "" },
    { sub: "  " },
    { sub: "s".repeat(257) },
    { scope: 7 },
    { scope: { a: 1 } },
    { scopes: ["a", 7] },
    { scp: [null] },
    { eventTypes: "render" },
    { eventTypes: [7] },
    { eventTypes: { 0: "render" } },
  ]) {
    assert.equal(await verify(claims), "invalid_claims", JSON.stringify(claims));
  }
  for (const sub of [7, ["shop"], { a: 1 }]) assert.notEqual(await verify({ sub }), "accepted");
});

test("S7: a token without an expiry is refused", async () => {
  const { verify } = setup();
  assert.equal(await verify({ exp: undefined }), "invalid_claims");
  for (const exp of ["soon", null, {}, [startSeconds + 600], String(startSeconds + 600)]) {
    assert.notEqual(await verify({ exp }), "accepted", JSON.stringify(exp));
  }
});

test("a token with a time that is no time is refused", async () => {
  const { verify } = setup();
  const raw = (text: string): unknown =>
    (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text);
  const times = ["1e309", "-1e309", "1e300", "253402300800", "-1", "9007199254740993"];
  for (const text of times) {
    assert.notEqual(await verify({ exp: raw(text) }), "accepted", `exp ${text}`);
    assert.notEqual(await verify({ iat: raw(text) }), "accepted", `iat ${text}`);
    assert.notEqual(await verify({ nbf: raw(text) }), "accepted", `nbf ${text}`);
  }
  assert.equal(await verify({ exp: raw("1e309") }), "invalid_claims");
  assert.equal(await verify({ exp: 253_402_300_799 }), "accepted");
});

test("S7: the leeway for clocks is real: for exp, nbf and iat, and not a second more", async () => {
  for (const skew of [0, 1, 60]) {
    const { verify } = setup(skew * 1000);
    assert.equal(await verify({ exp: startSeconds - skew + 1 }), "accepted");
    assert.equal(await verify({ exp: startSeconds - skew }), "token_expired");
    assert.equal(await verify({ nbf: startSeconds + skew }), "accepted");
    assert.equal(await verify({ nbf: startSeconds + skew + 1 }), "token_not_active");
    assert.equal(await verify({ iat: startSeconds + skew }), "accepted");
    assert.equal(await verify({ iat: startSeconds + skew + 1 }), "token_not_active");
  }
});

test("a token stays good for as long as it was said to be", async () => {
  const { clock, verify } = setup();
  await clock.advance(659_000);
  assert.equal(await verify({}), "accepted");
  await clock.advance(1000);
  assert.equal(await verify({}), "token_expired");
});

test("a token is for its issuer and audience", async () => {
  const { verify } = setup();
  for (const [claims, answer] of [
    [{ iss: "https://id.example.com/" }, "invalid_issuer"],
    [{ iss: undefined }, "invalid_issuer"],
    [{ iss: 7 }, "invalid_issuer"],
    [{ iss: ["https://id.example.com"] }, "invalid_issuer"],
    [{ aud: undefined }, "invalid_audience"],
    [{ aud: "codeq-worker" }, "invalid_audience"],
    [{ aud: ["other"] }, "invalid_audience"],
    [{ aud: [] }, "invalid_audience"],
    [{ aud: ["other", "codeq"] }, "accepted"],
  ] as const) {
    assert.equal(await verify(claims), answer, JSON.stringify(claims));
  }
});

test("a token must name its key and an algorithm that the key is for", async () => {
  const { verify } = setup();
  for (const header of [
    { kid: undefined },
    { kid: "" },
    { kid: 7 },
    { kid: "nobody" },
    { kid: "rs256" },
    { alg: undefined },
    { alg: "none" },
    { alg: "HS256" },
    { alg: "ES256" },
    { alg: "eddsa" },
    { crit: ["exp"], exp: 1 },
    { crit: ["b64"], b64: false },
  ]) {
    assert.equal(await verify({}, { header }), "invalid_token", JSON.stringify(header));
  }
});

test("a public key is not a shared secret", async () => {
  const { provider } = setup();
  const jwk = issuer.jwkOf("rs256");
  const pem = createPublicKey({ key: jwk, format: "jwk" }).export({ format: "pem", type: "spki" });
  for (const alg of ["HS256", "RS256"]) {
    const [, body] = issuer.token(good, { kid: "rs256" }).split(".");
    const header = Buffer.from(JSON.stringify({ alg, kid: "rs256" })).toString("base64url");
    const mac = createHmac("sha256", pem).update(`${header}.${body}`).digest("base64url");
    assert.deepEqual(await provider.verify(`${header}.${body}.${mac}`), {
      ok: false,
      code: "invalid_token",
    });
  }
});

test("a signature by another issuer's key of the same name is refused", async () => {
  const { provider } = setup();
  const forger = new SimIssuer(issuer.issuer).addKey("ed").addKey("rs256", "RS256");
  for (const kid of ["ed", "rs256"]) {
    assert.deepEqual(await provider.verify(forger.token(good, { kid })), {
      ok: false,
      code: "invalid_token",
    });
  }
});

test("no change of a single character leaves a token good", async () => {
  const { provider } = setup();
  const token = issuer.token(good, { kid: "ed" });
  const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.="];
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: token.length - 1 }),
      fc.constantFrom(...letters),
      async (at, letter) => {
        const changed = token.slice(0, at) + letter + token.slice(at + 1);
        fc.pre(changed !== token && !isSameSignature(changed, token));
        const verified = await provider.verify(changed);
        assert.equal(verified.ok, false, changed);
      },
    ),
    { numRuns: 500 },
  );
});

/** The last character of a signature has bits that mean nothing. */
function isSameSignature(one: string, other: string): boolean {
  const bytes = (token: string) => Buffer.from(token.split(".")[2] ?? "", "base64url");
  const rest = (token: string) => token.slice(0, token.lastIndexOf("."));
  return rest(one) === rest(other) && bytes(one).equals(bytes(other));
}

test("whatever text comes, it is refused and nothing breaks", async () => {
  const { provider } = setup();
  const piece = fc.oneof(
    fc.string(),
    fc.json().map((json) => Buffer.from(json).toString("base64url")),
    fc.constant(Buffer.from('{"alg":"EdDSA","kid":"ed"}').toString("base64url")),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 6 }), async (pieces) => {
      const verified = await provider.verify(pieces.join("."));
      assert.equal(verified.ok, false);
    }),
    { numRuns: 500 },
  );
});

test("S7: a token of another issuer does not cause a fetch", () => {
  const { provider } = setup();
  const other = new SimIssuer("https://other.example.com").addKey("unknown");
  // An answer that is not a promise cannot have waited for anything.
  assert.deepEqual(provider.verify(other.token(good)), { ok: false, code: "invalid_issuer" });
});

test("S7: a token is revoked when the key that signed it has left the set", async () => {
  const own = new SimIssuer().addKey("one").addKey("two");
  const { clock, provider } = setup(60_000, own);
  const verified = await provider.verify(own.token(good, { kid: "one" }));
  assert.ok(verified.ok);
  own.removeKey("one");
  await clock.advance(10_000);
  // Somebody brings a key that is not known, and the set is fetched.
  own.addKey("three");
  assert.ok((await provider.verify(own.token(good, { kid: "three" }))).ok);
  assert.equal(verified.value.isRevoked(), true);
});
