import assert from "node:assert/strict";
import { test } from "node:test";
import { webhookSecretsBlob } from "./blobs.ts";
import { loadConfig } from "./load.ts";

const secretOf = (bytes: number): string => `whsec_${Buffer.alloc(bytes, 7).toString("base64")}`;
const secret = secretOf(32);

function problemOf(value: unknown): string {
  const result = webhookSecretsBlob.parse(value);
  return result.ok ? assert.fail(`accepted ${JSON.stringify(value)}`) : result.problem;
}

test("one secret or two are taken, for all tenants and for single ones", () => {
  const text = JSON.stringify({ default: secret, tenants: { acme: [secretOf(24), secretOf(64)] } });
  assert.deepEqual(webhookSecretsBlob.parse(text), {
    ok: true,
    value: {
      default: [secret],
      tenants: new Map([["acme", [secretOf(24), secretOf(64)]]]),
    },
  });
  assert.deepEqual(webhookSecretsBlob.parse({}), {
    ok: true,
    value: { default: [], tenants: new Map() },
  });
});

test("what is no secret is refused in words that do not repeat it", () => {
  const hush = "hush-hush-hush-hush-hush-hush-hush-hush";
  for (const [value, expected] of [
    [hush, /^expected a map/],
    [{ default: hush }, /^default: expected "whsec_"/],
    [{ default: [secretOf(23)] }, /^default: expected "whsec_" and the base64 of 24 to 64/],
    [{ default: [secretOf(65)] }, /^default: expected/],
    [{ default: [secret, secret, secret] }, /^default: expected at most 2 secrets$/],
    [{ default: 7 }, /^default: expected/],
    [{ tenants: { acme: [] } }, /^tenants.acme: expected/],
    [{ tenants: { acme: null } }, /^tenants.acme: expected/],
    [{ tenants: { [`${hush}/`]: secret } }, /^tenants: the name of entry 1 is not a valid tenant$/],
    [{ tenants: [secret] }, /^tenants: expected a map/],
    [{ [hush]: secret }, /^a field is not one of default, tenants$/],
  ] as const) {
    const problem = problemOf(value);
    assert.match(problem, expected);
    assert.doesNotMatch(problem, /hush|BwcH/);
  }
});

test("outside of development a secret for all tenants is needed, in either setting", () => {
  const env = { ENV: "prod", PRODUCER_AUTH_CONFIG: "p", WORKER_AUTH_CONFIG: "w" };
  const problemsWith = (webhookSecrets: object): readonly string[] => {
    const secrets = { CODEQ_WEBHOOK_SECRETS: JSON.stringify(webhookSecrets) };
    const loaded = loadConfig({ argv: [], env: { ...env, ...secrets }, readFile: () => "" });
    return loaded.ok ? [] : loaded.problems;
  };
  assert.deepEqual(problemsWith({ default: secret }), []);
  assert.match(problemsWith({ tenants: { acme: secret } }).join(), /^webhookHmacSecret: required/);
});
