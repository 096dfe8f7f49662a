import assert from "node:assert/strict";
import test from "node:test";
import { SimClock, SimIssuer, SimRandom } from "@codeq/simulated";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { Providers } from "../access/providers.ts";
import type { TextRequest } from "../access/request-text.ts";
import { Revocations } from "../access/token-provider.ts";
import { IdentityLogin, loginMs } from "./identity-login.ts";

const wallMs = Date.UTC(2026, 0, 2);
const redirectUri = "https://codeq.example.com/ui/login/callback";

interface Given {
  /** Changes what the identity server says of itself. */
  readonly metadata?: object;
  /** Changes the claims of the ID token. */
  readonly claims?: object;
  /** Instead of the tokens. */
  readonly answer?: { readonly status: number; readonly text: string };
  readonly clientSecret?: string;
  readonly issuer?: string;
}

/** An identity server that gives tokens for the code `good` and its verifier. */
function setup(given: Given = {}) {
  const clock = new SimClock({ wallMs });
  const random = new SimRandom(1);
  const randomBytes = (into: Uint8Array): void => {
    for (let at = 0; at < into.length; at += 1) into[at] = Math.floor(random.next() * 256);
  };
  const issuer = new SimIssuer(given.issuer).addKey("one");
  const asked: TextRequest[] = [];
  let nonce = "";
  const metadata = {
    issuer: issuer.issuer,
    authorization_endpoint: `${issuer.issuer}/authorize?ui=new`,
    token_endpoint: `${issuer.issuer}/token`,
    authorization_response_iss_parameter_supported: true,
    ...given.metadata,
  };
  const requestText = async (request: TextRequest) => {
    asked.push(request);
    if (request.form === undefined) return { status: 200, text: JSON.stringify(metadata) };
    if (given.answer !== undefined) return given.answer;
    const exp = wallMs / 1000 + 3600;
    const claims = { sub: "ana", aud: "console", exp, nonce, ...given.claims };
    const text = JSON.stringify({ access_token: "access", id_token: issuer.token(claims) });
    return { status: 200, text };
  };
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: () => {},
  });
  const providers = new Providers({
    clock,
    logger,
    revocations: new Revocations(),
    metrics: createMetrics({ commandsMax: 1 }),
    fetchKeySet: async () => issuer.keySet(),
  });
  const keys = { httpTimeoutMs: 5000, refreshMs: 300_000, staleMs: 3_600_000, refetchMs: 10_000 };
  const [idTokens] = providers.of([
    {
      type: "jwks",
      jwksUrl: "https://id.example.com/keys",
      issuer: issuer.issuer,
      audience: "console",
      clockSkewMs: 60_000,
      ...keys,
    },
  ]);
  assert.ok(idTokens !== undefined);
  const { clientSecret = "" } = given;
  const login = new IdentityLogin(
    {
      issuer: issuer.issuer,
      clientId: "console",
      clientSecret,
      scopes: "openid codeq:viewer",
      resource: "urn:codeq",
      httpTimeoutMs: 5000,
    },
    { secret: "a secret", clock, randomBytes, requestText, idTokens },
  );
  /** Begins, and comes back with what the identity server answers, changed. */
  const signIn = async (changes: Readonly<Record<string, string | undefined>> = {}) => {
    const begun = await login.begin({ redirectUri, to: "/ui/queues" });
    assert.ok(begun.ok, begun.ok ? "" : begun.reason);
    const query = new URL(begun.url).searchParams;
    nonce = query.get("nonce") ?? "";
    const answer = { code: "good", state: query.get("state") ?? "", iss: issuer.issuer };
    return { begun, query, finished: await login.finish(begun.cookie, { ...answer, ...changes }) };
  };
  return { clock, login, asked, signIn };
}

function problemOf(outcome: { readonly ok: boolean; readonly problem?: string }): string {
  return outcome.ok ? "ok" : String(outcome.problem);
}

test("the code is exchanged with the verifier of its challenge", async () => {
  const { signIn, asked, login } = setup({ clientSecret: "a b:c" });
  const { begun, query, finished } = await signIn();
  assert.deepEqual(finished, { ok: true, accessToken: "access", subject: "ana", to: "/ui/queues" });
  assert.match(begun.url, /^https:\/\/id\.example\.com\/authorize\?ui=new&response_type=code&/);
  assert.deepEqual(
    ["scope", "resource", "redirect_uri"].map((name) => query.get(name)),
    ["openid codeq:viewer", "urn:codeq", redirectUri],
  );
  const { form, headers } = asked.find((each) => each.form !== undefined) ?? {};
  const challenge = await crypto.subtle.digest(
    "SHA-256",
    Buffer.from(form?.get("code_verifier") ?? ""),
  );
  assert.equal(query.get("code_challenge"), Buffer.from(challenge).toString("base64url"));
  assert.equal(form?.get("redirect_uri"), redirectUri);
  const basic = Buffer.from(headers?.["authorization"]?.slice("Basic ".length) ?? "", "base64");
  assert.equal(String(basic), "console:a+b%3Ac");
  assert.equal(login.host, "id.example.com");
});

test("each sign-in has a state, a nonce and a verifier of its own, and its cookie tells none of them", async () => {
  const { signIn } = setup();
  const [one, other] = [await signIn(), await signIn()];
  for (const name of ["state", "nonce", "code_challenge"]) {
    assert.notEqual(one.query.get(name), other.query.get(name), name);
    assert.ok(!one.begun.cookie.includes(one.query.get(name) ?? ""), name);
  }
});

test("an answer that this browser did not ask for, or too long ago, asks for no token", async () => {
  const { signIn, login, clock, asked } = setup();
  assert.equal(problemOf((await signIn({ state: "of another site" })).finished), "expired");
  assert.equal(problemOf((await signIn({ state: undefined })).finished), "expired");
  const { begun, query } = await signIn({ state: "wrong" });
  const answer = { code: "good", state: query.get("state") ?? "", iss: "https://id.example.com" };
  assert.equal(problemOf(await login.finish("", answer)), "expired");
  assert.equal(problemOf(await login.finish(begun.cookie.slice(1), answer)), "expired");
  await clock.advance(loginMs);
  assert.equal(problemOf(await login.finish(begun.cookie, answer)), "expired");
  assert.ok(asked.every(({ form }) => form === undefined));
});

test("an answer of another issuer asks for no token", async () => {
  const { signIn, asked } = setup();
  assert.equal(problemOf((await signIn({ iss: "https://evil.example" })).finished), "issuer");
  assert.equal(problemOf((await signIn({ iss: undefined })).finished), "issuer");
  assert.ok(asked.every(({ form }) => form === undefined));
  const old = setup({ metadata: { authorization_response_iss_parameter_supported: undefined } });
  assert.equal(problemOf((await old.signIn({ iss: undefined })).finished), "ok");
});

test("an identity server that calls itself something else, or whose endpoints are not encrypted, is none", async () => {
  for (const metadata of [
    { issuer: "https://evil.example" },
    { token_endpoint: "http://id.example.com/token" },
    { authorization_endpoint: "javascript:alert(1)" },
    { authorization_endpoint: undefined },
  ]) {
    const { login } = setup({ metadata });
    const begun = await login.begin({ redirectUri, to: "/ui" });
    assert.equal(problemOf(begun), "issuer", JSON.stringify(metadata));
  }
  const local = setup({ issuer: "http://127.0.0.1:9000" });
  assert.equal(problemOf((await local.signIn()).finished), "ok");
});

test("an ID token of another sign-in, client or issuer is refused", async () => {
  const wrong = [
    { nonce: "of another sign-in" },
    { nonce: undefined },
    { aud: "another client" },
    { aud: ["console", "other"], azp: "other" },
    { iss: "https://evil.example" },
    { exp: wallMs / 1000 - 3600 },
  ];
  for (const claims of wrong) {
    const { finished } = await setup({ claims }).signIn();
    assert.equal(problemOf(finished), "token", JSON.stringify(claims));
  }
});

test("what the identity server refuses, or cannot say, is told apart", async () => {
  const answers = [
    ["refused", { status: 400, text: '{"error":"invalid_grant"}' }],
    ["token", { status: 200, text: "<html>" }],
    ["token", { status: 200, text: "null" }],
    ["token", { status: 200, text: '{"access_token":"opaque"}' }],
  ] as const;
  for (const [problem, answer] of answers) {
    const { finished } = await setup({ answer }).signIn();
    assert.equal(problemOf(finished), problem, answer.text);
  }
  const denied = { code: undefined, error: "access_denied" };
  assert.equal(problemOf((await setup().signIn(denied)).finished), "refused");
});

test("sign-ins that begin at once share one question to the identity server", async () => {
  const { login, asked } = setup();
  const begin = (): Promise<unknown> => login.begin({ redirectUri, to: "/ui" });
  await Promise.all([begin(), begin(), begin()]);
  assert.equal(asked.length, 1);
});
