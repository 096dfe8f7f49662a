/**
 * Tokens from the configuration. They are stored and looked up as hashes, so that response times reveal
 * nothing about a token.
 */
import { accept, refuse } from "@codeq/queue";
import { isNumericDate } from "../config/auth-blob.ts";
import type { StaticTokenConfig } from "../config/settings.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { type Claims, neverRevoked, type TokenProvider, type Verified } from "./token-provider.ts";

export class StaticTokens implements TokenProvider {
  readonly #byFingerprint: ReadonlyMap<string, Claims>;

  constructor(tokens: readonly StaticTokenConfig[]) {
    this.#byFingerprint = new Map(
      tokens.map((each) => [fingerprintOf(each.token), claimsOf(each)]),
    );
  }

  verify(token: string): Verified {
    const claims = this.#byFingerprint.get(fingerprintOf(token));
    return claims === undefined ? refuse("invalid_token") : accept(claims);
  }
}

function claimsOf({ subject, scopes, eventTypes, raw }: StaticTokenConfig): Claims {
  const { exp } = raw;
  return {
    subject,
    scopes,
    eventTypes,
    raw,
    expiresMs: isNumericDate(exp) ? exp * 1000 : undefined,
    issuedBy: "configuration",
    isRevoked: neverRevoked,
  };
}
