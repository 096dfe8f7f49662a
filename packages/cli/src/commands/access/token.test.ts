import assert from "node:assert/strict";
import { test } from "node:test";
import { CliWorld } from "../../../test/cli-world.ts";
import { readToken } from "./token.ts";

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const jwt = (claims: object): string => `${part({ alg: "RS256" })}.${part(claims)}.c2ln`;

test("a JWT is taken apart, and its end is told", () => {
  const now = 1_800_000_000_000;
  const good = readToken(jwt({ sub: "a", exp: 1_800_000_001 }), now);
  assert.equal(good.kind, "jwt");
  assert.deepEqual(good.claims, { sub: "a", exp: 1_800_000_001 });
  assert.equal(good.expired, false);
  assert.equal(readToken(jwt({ exp: 1_800_000_000 }), now).expired, true);
  assert.equal(readToken(jwt({ sub: "a" }), now).expired, undefined);
});

test("other tokens are not taken for one", () => {
  assert.equal(readToken("dev-token", 0).kind, "static");
  assert.equal(readToken("a.b.c", 0).kind, "static");
  const key = readToken("cq_01abc_ABCDEFGHIJKLMNOPQRSTUV", 0);
  assert.deepEqual([key.kind, key.keyId], ["api key", "cq_01abc"]);
});

test("token create prints a token and the setting that goes with it", async () => {
  using world = new CliWorld();
  const { output, code } = await world.run(
    "token",
    "create",
    "--json",
    "--worker",
    "--events",
    "a,b",
  );
  assert.equal(code, 0);
  const { token, variable, config } = JSON.parse(output);
  assert.equal(variable, "WORKER_AUTH_CONFIG");
  assert.equal(config[0].token, token);
  assert.deepEqual(config[0].eventTypes, ["a", "b"]);
  const plain = await world.run("token", "create", "--admin-role", "--tenant", "acme");
  assert.match(plain.errors, /PRODUCER_AUTH_CONFIG='\[.*"tenantId":"acme","role":"ADMIN".*\]'/);
  assert.equal(plain.output.trim().length, 32);
});

test("token show prints the token and nothing else", async () => {
  using world = new CliWorld({ env: { CODEQ_TOKEN: "abc" } });
  assert.deepEqual(await world.run("token", "show"), { code: 0, output: "abc\n", errors: "" });
  const far = await world.run("token", "show", "--worker", "--base-url", "http://far");
  assert.equal(far.output, "abc\n");
  using none = new CliWorld();
  assert.equal((await none.run("token", "show", "--base-url", "http://far")).code, 7);
});
