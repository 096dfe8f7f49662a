import assert from "node:assert/strict";
import { test } from "node:test";
import { consoleProblems } from "./check-config.ts";
import type { ProviderConfig, Settings } from "./settings.ts";

const jwks = (issuer: string): ProviderConfig => ({
  type: "jwks",
  jwksUrl: "https://id.example.com/keys",
  issuer,
  audience: "codeq",
  clockSkewMs: 0,
  httpTimeoutMs: 1,
  refreshMs: 1,
  staleMs: 1,
  refetchMs: 1,
});

function problemsOf(clientId: string, ...producers: readonly ProviderConfig[]): string {
  return consoleProblems({ consoleLoginClientId: clientId } as Settings, producers).join();
}

test("signing in at an identity server needs one whose issuer is a URL", () => {
  assert.equal(problemsOf("", jwks("anything")), "");
  assert.equal(problemsOf("console", jwks("https://id.example.com")), "");
  assert.match(problemsOf("console"), /needs an identity server .* set producerAuthConfig/);
  assert.match(problemsOf("console", jwks("id.example.com")), /is not a URL/);
});
