import assert from "node:assert/strict";
import { test } from "node:test";
import { accept, refuse } from "@codeq/queue";
import { SimClock } from "@codeq/simulated";
import { type MaybePromise, whenKnown } from "../../core/maybe-promise.ts";
import { AcceptedTokens } from "./authenticator.ts";
import { type Authenticated, producerOf, workerOf } from "./identity.ts";
import type { Claims, TokenProvider, Verified } from "./token-provider.ts";

/** Knows the tokens it is given, and counts how often it is asked. */
class Provider implements TokenProvider {
  readonly #answer: (token: string) => MaybePromise<Verified>;
  asked = 0;

  constructor(answer: (token: string) => MaybePromise<Verified>) {
    this.#answer = answer;
  }

  verify(token: string): MaybePromise<Verified> {
    this.asked += 1;
    return this.#answer(token);
  }
}

function claims(subject: string, more: Partial<Claims> = {}): Claims {
  return {
    subject,
    scopes: [],
    eventTypes: [],
    raw: { tenantId: "acme" },
    expiresMs: undefined,
    issuedBy: "test",
    isRevoked: () => false,
    ...more,
  };
}

function setup(
  providers: readonly TokenProvider[],
  tokensMax = 10,
): { clock: SimClock; find: (token: string) => MaybePromise<unknown> } {
  const clock = new SimClock({ wallMs: 1_000_000 });
  const sources = providers.map((provider) => ({ provider, identityOf: producerOf }));
  const tokens = new AcceptedTokens({ sources, clock, tokensMax });
  const subjectOf = (outcome: Authenticated) =>
    outcome.ok ? accept(outcome.value.subject) : outcome;
  return { clock, find: (token) => whenKnown(tokens.find(token, `of ${token}`), subjectOf) };
}

test("a token that was accepted is known afterwards, and answered without waiting", async () => {
  const provider = new Provider(async (token) => accept(claims(token)));
  const { find } = setup([provider]);
  assert.deepEqual(await find("a"), { ok: true, value: "a" });
  assert.deepEqual(find("a"), { ok: true, value: "a" });
  assert.equal(provider.asked, 1);
});

test("calls that bring the same token at once wait for one verification", async () => {
  const { promise, resolve } = Promise.withResolvers<Verified>();
  const provider = new Provider(() => promise);
  const { find } = setup([provider]);
  const calls = [find("a"), find("a"), find("a")];
  resolve(accept(claims("a")));
  const same = { ok: true, value: "a" };
  assert.deepEqual(await Promise.all(calls), [same, same, same]);
  assert.equal(provider.asked, 1);
});

test("a verification that fails is forgotten, and the next call tries again", async () => {
  let fails = true;
  const provider = new Provider(async () => {
    if (fails) throw new Error("broken");
    return accept(claims("a"));
  });
  const { find } = setup([provider]);
  await assert.rejects(async () => find("a"));
  fails = false;
  assert.deepEqual(await find("a"), { ok: true, value: "a" });
});

test("a refused token is asked about every time", () => {
  const provider = new Provider(() => refuse("invalid_token"));
  const { find } = setup([provider]);
  for (let times = 0; times < 3; times += 1) void find("a");
  assert.equal(provider.asked, 3);
});

test("a token is refused from the millisecond it expires, also when it was known", async () => {
  const provider = new Provider(() => accept(claims("a", { expiresMs: 1_000_100 })));
  const { clock, find } = setup([provider]);
  assert.deepEqual(find("a"), { ok: true, value: "a" });
  await clock.advance(99);
  assert.deepEqual(find("a"), { ok: true, value: "a" });
  await clock.advance(1);
  assert.deepEqual(find("a"), refuse("token_expired"));
  assert.deepEqual(find("b"), refuse("token_expired"), "one that was not known");
});

test("a revoked token is verified again and not taken from memory", () => {
  let isRevoked = false;
  const provider = new Provider(() =>
    isRevoked ? refuse("invalid_token") : accept(claims("a", { isRevoked: () => isRevoked })),
  );
  const { find } = setup([provider]);
  assert.deepEqual(find("a"), { ok: true, value: "a" });
  isRevoked = true;
  assert.deepEqual(find("a"), refuse("invalid_token"));
});

test("only the latest tokens are remembered", () => {
  const provider = new Provider((token) => accept(claims(token)));
  const { find } = setup([provider], 3);
  for (const token of ["a", "b", "c", "d"]) void find(token);
  assert.equal(provider.asked, 4);
  for (const token of ["b", "c", "d"]) void find(token);
  assert.equal(provider.asked, 4);
  void find("a");
  assert.equal(provider.asked, 5);
});

test("providers are asked in turn until one accepts", async () => {
  const first = new Provider(() => refuse("invalid_token"));
  const second = new Provider(async () => accept(claims("second")));
  const third = new Provider(() => accept(claims("third")));
  const { find } = setup([first, second, third]);
  assert.deepEqual(await find("a"), { ok: true, value: "second" });
  assert.deepEqual([first.asked, second.asked, third.asked], [1, 1, 0]);
});

test("of several refusals the one that tells most is given, in whatever order they come", () => {
  const vague = new Provider(() => refuse("invalid_token"));
  const other = new Provider(() => refuse("invalid_issuer"));
  const precise = new Provider(() => refuse("token_expired"));
  for (const [providers, code] of [
    [[], "invalid_token"],
    [[vague], "invalid_token"],
    [[vague, other], "invalid_issuer"],
    [[other, vague], "invalid_issuer"],
    [[precise, other, vague], "token_expired"],
    [[vague, other, precise], "token_expired"],
  ] as const) {
    assert.deepEqual(setup(providers).find("a"), refuse(code));
  }
});

test("a bearer that a source does not admit is left to the next one, and not remembered", () => {
  const provider = new Provider((token) => accept(claims(token)));
  const clock = new SimClock();
  const sources = [
    { provider, identityOf: workerOf },
    { provider, identityOf: producerOf },
  ];
  const both = new AcceptedTokens({ sources, clock, tokensMax: 10 });
  const found = both.find("a", "of a");
  assert.ok(!(found instanceof Promise) && found.ok);
  const alone = new AcceptedTokens({ sources: sources.slice(0, 1), clock, tokensMax: 10 });
  provider.asked = 0;
  for (let times = 0; times < 3; times += 1) {
    assert.deepEqual(alone.find("a", "of a"), refuse("missing_event_types"));
  }
  assert.equal(provider.asked, 3);
});

test("a token that is revoked while it is verified is refused", async () => {
  let isRevoked = false;
  const provider = new Provider(async () => {
    isRevoked = true;
    return accept(claims("a", { isRevoked: () => isRevoked }));
  });
  assert.deepEqual(await setup([provider]).find("a"), refuse("invalid_token"));
});
