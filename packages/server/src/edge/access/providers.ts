/** The providers of tokens that the configuration names: tokens in the configuration itself, and identity servers. */
import type { ErrorCode } from "@codeq/protocol";
import { accept, refuse } from "@codeq/queue";
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import { isNumericDate, isTextList } from "../../config/auth/auth-blob.ts";
import type {
  JwksProviderConfig,
  ProviderConfig,
  StaticTokenConfig,
} from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import { type MaybePromise, whenKnown } from "../../core/maybe-promise.ts";
import { KeySet, type KeySetParts } from "./key-set.ts";
import { type Algorithm, algorithms, type SigningKey } from "./signing-keys.ts";
import {
  type Claims,
  fingerprintOf,
  neverRevoked,
  type TokenProvider,
  type Verified,
} from "./token-provider.ts";

/** Equal key sets are fetched once. */
export class Providers implements Disposable {
  readonly #parts: KeySetParts;
  readonly #keySets: Map<string, KeySet> = new Map();

  constructor(parts: KeySetParts) {
    this.#parts = parts;
  }

  get keySets(): readonly KeySet[] {
    return [...this.#keySets.values()];
  }

  of(configs: readonly ProviderConfig[]): readonly TokenProvider[] {
    return configs.map((config) => {
      if (config.type === "static") return new StaticTokens(config.tokens);
      const { jwksUrl, httpTimeoutMs, refreshMs, staleMs, refetchMs } = config;
      const wanted = { jwksUrl, httpTimeoutMs, refreshMs, staleMs, refetchMs };
      const name = JSON.stringify(wanted);
      const keys = this.#keySets.get(name) ?? new KeySet(wanted, this.#parts);
      this.#keySets.set(name, keys);
      return new JwtProvider(config, { keys, clock: this.#parts.clock });
    });
  }

  [Symbol.dispose](): void {
    for (const keys of this.#keySets.values()) keys[Symbol.dispose]();
  }
}

/**
 * Tokens from the configuration. They are stored and looked up as hashes, so that response times reveal
 * nothing about a token.
 */
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

export type IssuerConfig = Pick<JwksProviderConfig, "issuer" | "audience" | "clockSkewMs">;

const subjectCharsMax = 256;

/**
 * Tokens that an identity server signs. The signature is verified first, then issuer, audience and times. A
 * token must name its key, expire, and have a subject.
 */
export class JwtProvider implements TokenProvider {
  readonly #config: IssuerConfig;
  readonly #keys: KeySet;
  readonly #clock: Clock;

  constructor(config: IssuerConfig, parts: { readonly keys: KeySet; readonly clock: Clock }) {
    this.#config = config;
    this.#keys = parts.keys;
    this.#clock = parts.clock;
  }

  verify(token: string): MaybePromise<Verified> {
    const read = readUnverified(token);
    if (read === undefined) return refuse("invalid_token");
    // With several issuers, tokens of another issuer are normal; they must not cause a fetch of keys.
    if (read.issuer !== this.#config.issuer) return refuse("invalid_issuer");
    return whenKnown(this.#keys.find(read.kid, read.algorithm), (key) =>
      key.ok ? this.#check(token, read.algorithm, key.value) : key,
    );
  }

  async #check(token: string, algorithm: Algorithm, key: SigningKey): Promise<Verified> {
    const { issuer, audience, clockSkewMs } = this.#config;
    const nowMs = this.#clock.nowMs();
    try {
      const verifying = key.byAlgorithm.get(algorithm);
      if (verifying === undefined) return refuse("invalid_token");
      const { payload } = await jwtVerify(token, verifying, {
        issuer,
        audience,
        algorithms: [algorithm],
        requiredClaims: ["exp", "sub"],
        currentDate: new Date(nowMs),
        clockTolerance: clockSkewMs / 1000,
      });
      const { iat } = payload;
      if (!hasSaneTimes(payload)) return refuse("invalid_claims");
      if (iat !== undefined && iat * 1000 > nowMs + clockSkewMs) return refuse("token_not_active");
      return this.#claimsOf(payload, key);
    } catch (error) {
      if (error instanceof errors.JOSEError) return refuse(codeOf(error));
      throw error;
    }
  }

  #claimsOf(payload: JWTPayload, key: SigningKey): Verified {
    const { sub, exp = 0 } = payload;
    const scopes = scopesOf(payload);
    const eventTypes = payload["eventTypes"] ?? [];
    if (typeof sub !== "string" || sub.trim() === "" || sub.length > subjectCharsMax) {
      return refuse("invalid_claims");
    }
    if (scopes === undefined || !isTextList(eventTypes)) return refuse("invalid_claims");
    return accept({
      subject: sub,
      scopes,
      eventTypes,
      raw: payload,
      expiresMs: exp * 1000 + this.#config.clockSkewMs,
      issuedBy: `issuer ${this.#config.issuer}`,
      isRevoked: key.isGone,
    });
  }
}

/** A number that is not a time, such as 1e309, would make a token that never expires. */
function hasSaneTimes(payload: JWTPayload): boolean {
  return ["exp", "nbf", "iat"].every((name) => {
    const value = payload[name];
    return value === undefined || isNumericDate(value);
  });
}

interface Unverified {
  readonly kid: string;
  readonly algorithm: Algorithm;
  readonly issuer: string | undefined;
}

function readUnverified(token: string): Unverified | undefined {
  // Recognises most tokens of other kinds without the cost of an exception.
  if (token.split(".", 4).length !== 3) return undefined;
  try {
    const { kid, alg } = decodeProtectedHeader(token);
    const algorithm = algorithms.find((known) => known === alg);
    const isNamed = typeof kid === "string" && kid !== "";
    if (!isNamed || algorithm === undefined) return undefined;
    return { kid, algorithm, issuer: decodeJwt(token).iss };
  } catch {
    // Not a token of this kind; another provider may know it.
    return undefined;
  }
}

/** Issuers send `scope` as one text, or `scopes` or `scp` as a list. Undefined if malformed. */
function scopesOf(payload: JWTPayload): readonly string[] | undefined {
  const all = ["scope", "scopes", "scp"].flatMap((name) => {
    const value = payload[name] ?? [];
    return typeof value === "string" ? value.split(" ").filter((word) => word !== "") : value;
  });
  return isTextList(all) ? all : undefined;
}

function codeOf(error: errors.JOSEError): ErrorCode {
  if (error instanceof errors.JWTExpired) return "token_expired";
  if (!(error instanceof errors.JWTClaimValidationFailed)) return "invalid_token";
  switch (error.claim) {
    case "aud":
      return "invalid_audience";
    case "iss":
      return "invalid_issuer";
    case "nbf":
      return "token_not_active";
    default:
      return "invalid_claims";
  }
}
