import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "../load.ts";
import type { Config, JwksProviderConfig } from "../settings.ts";

interface Given {
  readonly env?: Record<string, string>;
  readonly yaml?: string;
}

function load({ env = {}, yaml }: Given): ReturnType<typeof loadConfig> {
  const withFile = yaml === undefined ? env : { ...env, CODEQ_CONFIG_PATH: "codeq.yaml" };
  return loadConfig({ argv: [], env: withFile, readFile: () => yaml ?? "" });
}

function accepted(given: Given): { config: Config; warnings: readonly string[] } {
  const result = load(given);
  assert.ok(result.ok, result.ok ? "" : result.problems.join("\n"));
  return result;
}

function problemsOf(given: Given): readonly string[] {
  const result = load(given);
  assert.ok(!result.ok, "expected problems");
  return result.problems;
}

const server = {
  jwksUrl: "https://id.example.com/keys",
  issuer: "https://id.example.com",
  audience: "codeq",
};

const jwks: JwksProviderConfig = {
  type: "jwks",
  ...server,
  clockSkewMs: 60_000,
  httpTimeoutMs: 5000,
  refreshMs: 300_000,
  staleMs: 86_400_000,
  refetchMs: 10_000,
};

/** The producers' config with what is given, and some tokens for workers. */
function producerAuth(blob: unknown, more: Record<string, string> = {}): Config["producerAuth"] {
  const env = { PRODUCER_AUTH_CONFIG: JSON.stringify(blob), WORKER_AUTH_CONFIG: "w", ...more };
  return accepted({ env }).config.producerAuth;
}

test("a static token may name its tenant and roles beside its other claims", () => {
  const [provider] = producerAuth([
    { token: "a", subject: "s", tenant: " acme ", roles: ["operator"], raw: { commands: ["x"] } },
    { token: "b" },
  ]);
  assert.ok(provider?.type === "static");
  assert.deepEqual(
    provider.tokens.map(({ raw }) => raw),
    [{ commands: ["x"], tenantId: "acme", roles: ["operator"] }, {}],
  );
});

test("an identity server is read from a map of the file or from JSON", () => {
  assert.deepEqual(producerAuth(server), [jwks]);
  const yaml = `
producerAuthProvider: jwks
producerAuthConfig:
  jwksUrl: https://id.example.com/keys
  issuer: https://id.example.com
  audience: codeq
  clockSkew: 90s
  httpTimeout: 1s500ms
  refreshInterval: 10m
  staleFor: 1h30m
  refetchInterval: 30s
workerAuthConfig: w
`;
  assert.deepEqual(accepted({ yaml }).config.producerAuth, [
    {
      ...jwks,
      clockSkewMs: 90_000,
      httpTimeoutMs: 1500,
      refreshMs: 600_000,
      staleMs: 5_400_000,
      refetchMs: 30_000,
    },
  ]);
});

test("a number is nanoseconds, as in files of the Go server, or seconds when it is too small for those", () => {
  for (const [clockSkew, ms] of [
    [60_000_000_000, 60_000],
    ["60000000000", 60_000],
    [1_000_000, 1],
    [999, undefined],
    [60, 60_000],
    ["60", 60_000],
    ["60s", 60_000],
    ["1m", 60_000],
    ["0.5m", 30_000],
    ["1m0.5s", 60_500],
    [0, 0],
    ["0s", 0],
    ["250ms", 250],
    ["10m", 600_000],
    ["10m1s", undefined],
    [-1, undefined],
    [1.5, undefined],
    ["", undefined],
    ["60 s", undefined],
    ["s", undefined],
    ["1d", undefined],
    ["-1s", undefined],
    [true, undefined],
    [null, undefined],
  ] as const) {
    const blob = { ...server, clockSkew };
    if (ms !== undefined) assert.deepEqual(producerAuth(blob), [{ ...jwks, clockSkewMs: ms }]);
    else {
      const env = { PRODUCER_AUTH_CONFIG: JSON.stringify(blob), WORKER_AUTH_CONFIG: "w" };
      assert.match(problemsOf({ env })[0]!, /clockSkew: expected a duration from 0s to 10m/);
    }
  }
});

test("a zero that files of the Go server have for no limit means the default", () => {
  const blob = { ...server, httpTimeout: 0, refreshInterval: 0, staleFor: 0, refetchInterval: 0 };
  assert.deepEqual(producerAuth(blob), [jwks]);
});

test("the clock skew is that of its own key where the config does not say", () => {
  const more = { ALLOWED_CLOCK_SKEW_SECONDS: "7" };
  assert.deepEqual(producerAuth(server, more), [{ ...jwks, clockSkewMs: 7000 }]);
  assert.deepEqual(producerAuth({ ...server, clockSkew: "2s" }, more), [
    { ...jwks, clockSkewMs: 2000 },
  ]);
});

test("several providers are read in their order, each in any of its forms", () => {
  const providers = [
    { type: "static", config: "a" },
    { type: "jwks", config: server },
    { type: "static", config: [{ token: "b" }, { token: "c" }] },
    { type: "jwks", config: JSON.stringify({ ...server, audience: "other" }) },
  ];
  const read = producerAuth({ providers }, { PRODUCER_AUTH_PROVIDER: "multi" });
  assert.deepEqual(
    read.map((each) => (each.type === "jwks" ? each.audience : each.tokens.map((t) => t.token))),
    [["a"], "codeq", ["b", "c"], "other"],
  );
});

test("a config that cannot be used says which part, and never what is in it", () => {
  const entry = { type: "static", config: "hush" };
  for (const [blob, words] of [
    [{ issuer: "hush", audience: "x" }, /jwksUrl is required/],
    [{ ...server, issuer: "" }, /issuer is required/],
    [{ ...server, audience: undefined }, /audience is required/],
    [{ ...server, audience: ["a"] }, /audience is required/],
    [{ ...server, jwksUrl: "hush" }, /jwksUrl: expected a URL/],
    [{ ...server, jwksUrl: "ftp://127.0.0.1/hush" }, /jwksUrl: expected https/],
    [{ ...server, jwksUrl: "http://id.example.com/hush" }, /jwksUrl: expected https; plain http/],
    [{ ...server, jwksUrl: "http://127.0.0.1.hush.com" }, /jwksUrl: expected https; plain http/],
    [{ ...server, jwksUrl: "http://127.hush.com/" }, /jwksUrl: expected https; plain http/],
    [{ ...server, jwksUrl: "https://u:hush@id.example.com" }, /must not contain a user name/],
    [{ ...server, allowInsecureUrl: "hush" }, /allowInsecureUrl: expected true or false/],
    [{ ...server, httpTimeout: "10ms" }, /httpTimeout: expected a duration from 100ms to 1m/],
    [{ ...server, refreshInterval: "hush" }, /refreshInterval: expected a duration/],
    [{ ...server, staleFor: "1m" }, /staleFor: expected at least refreshInterval/],
    [{ ...server, refetchInterval: "0.1s" }, /refetchInterval: expected a duration/],
    [{ ...server, jwksUri: "hush" }, /jwksUri \(did you mean jwksUrl\?\) is not one of/],
    [{ providers: [entry] }, /providers: expected a list of 2 to 4/],
    [{ providers: Array(5).fill(entry) }, /providers: expected a list of 2 to 4/],
    [{ providers: "hush" }, /providers: expected a list of 2 to 4/],
    [{ providers: [entry, entry], token: "hush" }, /is not one of providers/],
    [{ providers: [entry, "hush"] }, /provider 2: expected an object with type and config/],
    [{ providers: [entry, { type: "hush" }] }, /provider 2: type: expected static or jwks/],
    [
      { providers: [entry, { type: "multi", config: { providers: [] } }] },
      /provider 2: type: expected static or jwks/,
    ],
    [{ providers: [entry, { type: "jwks", config: "hush" }] }, /provider 2: expected an object/],
    [{ providers: [entry, { type: "static", config: 7 }] }, /provider 2: expected a token/],
  ] as const) {
    const text = JSON.stringify(blob);
    const problems = problemsOf({ env: { PRODUCER_AUTH_CONFIG: text, WORKER_AUTH_CONFIG: "w" } });
    assert.equal(problems.length, 1, text);
    assert.match(problems[0]!, words);
    assert.doesNotMatch(problems[0]!, /hush/);
  }
});

test("keys are fetched without TLS from this machine only, unless that is allowed", () => {
  for (const jwksUrl of ["http://127.0.0.1:1/k", "http://localhost/k", "http://[::1]:8/k"]) {
    assert.deepEqual(producerAuth({ ...server, jwksUrl }), [{ ...jwks, jwksUrl }]);
  }
  const blob = { ...server, jwksUrl: "http://keycloak:8080/keys", allowInsecureUrl: true };
  assert.deepEqual(producerAuth(blob), [{ ...jwks, jwksUrl: blob.jwksUrl }]);
});

test("a provider that does not fit its config is a mistake", () => {
  const workers = { WORKER_AUTH_CONFIG: "w" };
  for (const [said, blob, shape] of [
    ["jwks", "a-token", "static"],
    ["static", JSON.stringify(server), "jwks"],
    ["multi", JSON.stringify(server), "jwks"],
  ] as const) {
    const env = { ...workers, PRODUCER_AUTH_PROVIDER: said, PRODUCER_AUTH_CONFIG: blob };
    assert.deepEqual(problemsOf({ env }), [
      `producerAuthProvider: ${said} does not match producerAuthConfig, which is written for ` +
        `${shape}; remove producerAuthProvider or correct producerAuthConfig`,
    ]);
  }
});

test("a provider without its config does not fall back to the development token", () => {
  for (const said of ["jwks", "multi"]) {
    assert.deepEqual(problemsOf({ env: { WORKER_AUTH_PROVIDER: said } }), [
      `workerAuthProvider: ${said} needs workerAuthConfig; set both`,
      'producerAuthConfig: no tokens are configured for producers and env is dev; set producerAuthConfig in the file or PRODUCER_AUTH_CONFIG in the environment to {"token":"...","subject":"..."}',
    ]);
  }
});

test("the older keys name identity servers where there is no auth config", () => {
  const { config } = accepted({
    env: {
      IDENTITY_JWKS_URL: "https://id.example.com/keys",
      IDENTITY_ISSUER: "https://id.example.com",
      IDENTITY_AUDIENCE: "codeq",
      WORKER_JWKS_URL: "https://work.example.com/keys",
      WORKER_ISSUER: "https://work.example.com",
      PRODUCER_AUTH_PROVIDER: "jwks",
    },
  });
  assert.deepEqual(config.producerAuth, [jwks]);
  assert.deepEqual(config.workerAuth, [
    {
      ...jwks,
      jwksUrl: "https://work.example.com/keys",
      issuer: "https://work.example.com",
      audience: "codeq-worker",
    },
  ]);
});

test("the URL of the identity service stands for its key set and issuer", () => {
  const { config } = accepted({
    env: {
      IDENTITY_SERVICE_URL: "https://id.example.com/",
      IDENTITY_AUDIENCE: "codeq",
      WORKER_AUTH_CONFIG: "w",
    },
  });
  const jwksUrl = "https://id.example.com/v1/.well-known/jwks.json";
  assert.deepEqual(config.producerAuth, [{ ...jwks, jwksUrl }]);
});

test("older keys that are not enough are a mistake, and an auth config wins over them", () => {
  const workers = { WORKER_AUTH_CONFIG: "w" };
  assert.deepEqual(problemsOf({ env: { ...workers, IDENTITY_AUDIENCE: "codeq" } }), [
    "identityAudience: has no effect without identityJwksUrl; set both",
  ]);
  assert.deepEqual(problemsOf({ env: { ...workers, IDENTITY_JWKS_URL: server.jwksUrl } }), [
    "identityJwksUrl: issuer is required",
  ]);
  const { config, warnings } = accepted({
    env: { ...workers, PRODUCER_AUTH_CONFIG: "p", IDENTITY_JWKS_URL: server.jwksUrl },
  });
  assert.equal(config.producerAuth[0]?.type, "static");
  assert.deepEqual(warnings, ["identityJwksUrl has no effect, because producerAuthConfig is set"]);
});

test("S2: outside dev the development token is refused wherever it stands", () => {
  const prod = { ENV: "prod", WEBHOOK_HMAC_SECRET: "s" };
  const multi = JSON.stringify({
    providers: [
      { type: "jwks", config: server },
      { type: "static", config: ["other", "dev-token"] },
    ],
  });
  for (const blob of ["dev-token", '{"token":" dev-token "}', multi]) {
    const env = { ...prod, PRODUCER_AUTH_CONFIG: "p", WORKER_AUTH_CONFIG: blob };
    assert.deepEqual(problemsOf({ env }), [
      "workerAuthConfig: contains the development token and env is prod; replace it by a long " +
        "random text",
    ]);
    accepted({ env: { ...env, ENV: "dev" } });
  }
  const both = problemsOf({
    env: { ...prod, PRODUCER_AUTH_CONFIG: '["fine","dev-token"]', WORKER_AUTH_CONFIG: "dev-token" },
  });
  assert.deepEqual(
    both.map((problem) => problem.split(":")[0]),
    ["producerAuthConfig", "workerAuthConfig"],
  );
});

test("S2: a role that the request claims is for development only, and off unless it is asked for", () => {
  assert.equal(accepted({}).config.allowRoleHeader, false);
  assert.equal(accepted({ env: { CODEQ_ALLOW_ROLE_HEADER: "true" } }).config.allowRoleHeader, true);
  const prod = { ENV: "prod", WEBHOOK_HMAC_SECRET: "s", CODEQ_ALLOW_ROLE_HEADER: "true" };
  const problems = problemsOf({
    env: { ...prod, PRODUCER_AUTH_CONFIG: "p", WORKER_AUTH_CONFIG: "w" },
  });
  assert.equal(problems.length, 1);
  assert.match(problems[0]!, /^allowRoleHeader: only allowed when env is dev/);
});

test("half an auth configuration is refused instead of completed with the development token", () => {
  assert.match(problemsOf({ env: { PRODUCER_AUTH_CONFIG: "p" } })[0]!, /^workerAuthConfig/);
  assert.match(problemsOf({ env: { WORKER_AUTH_CONFIG: "w" } })[0]!, /^producerAuthConfig/);
  const { config } = accepted({
    env: { PRODUCER_AUTH_CONFIG: "p", ALLOW_PRODUCER_AS_WORKER: "yes" },
  });
  assert.deepEqual(config.workerAuth, []);
});

test("an auth configuration that does not parse is reported once, not also as missing", () => {
  const problems = problemsOf({ env: { PRODUCER_AUTH_CONFIG: "{", WORKER_AUTH_CONFIG: "w" } });
  assert.equal(problems.length, 1);
});

test("the auth blobs refuse what is not a token, naming the field and never its contents", () => {
  const cases: [blob: unknown, words: RegExp][] = [
    [{ subject: "x" }, /token: expected text/],
    [{ token: "hush-1", scope: [] }, /scope \(did you mean scopes\?\) is not one of/],
    [{ "hush-2": null }, /a field is not one of token, subject/],
    [{ token: "hush-3", scopes: "all" }, /scopes: expected a list/],
    [{ token: "hush-4", eventTypes: [1] }, /eventTypes: expected a list/],
    [{ token: "hush-5", raw: [] }, /raw: expected an object/],
    [{ token: "hush-6", subject: 1 }, /subject: expected text/],
    [{ token: "hush-7", email: 1 }, /email: expected text/],
    [{ token: "hush-10", tenant: 7 }, /tenant: expected text/],
    [{ token: "hush-11", tenant: "a", raw: { tenantId: "b" } }, /tenant: raw has a tenantId too/],
    [{ token: "hush-12", roles: "admin" }, /roles: expected a list/],
    [{ token: "hush-13", roles: [], raw: { roles: [] } }, /roles: raw has roles too/],
    [{ token: "hush-14", raw: { exp: "soon" } }, /exp to be a time in seconds since 1970/],
    [{ token: "hush-15", raw: { exp: 1e300 } }, /exp to be a time in seconds since 1970/],
    [[], /expected 1 to 1000 tokens/],
    [[{ token: "hush-8" }, { token: " hush-8 " }], /entries 1 and 2 have the same token/],
    [[{ token: "hush-9" }, 7], /entry 2: expected a token/],
  ];
  for (const [blob, words] of cases) {
    const text = JSON.stringify(blob);
    const problems = problemsOf({ env: { PRODUCER_AUTH_CONFIG: text, WORKER_AUTH_CONFIG: "w" } });
    assert.equal(problems.length, 1, text);
    assert.match(problems[0]!, words);
    assert.doesNotMatch(problems[0]!, /hush/);
  }
});
