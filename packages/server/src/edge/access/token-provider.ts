/**
 * The interface between tokens and identities. A provider handles one kind of token: those of the
 * configuration, those that an identity server signs, or API keys. It returns the claims of a token or the
 * reason for refusing it; it does not decide what the claims allow.
 */
import { hash, timingSafeEqual } from "node:crypto";
import type { ErrorCode } from "@codeq/protocol";
import type { Outcome } from "@codeq/queue";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import type { ApiKeyId } from "./api-keys/api-key-record.ts";
import type { Identity } from "./identity.ts";

/** The claims of a verified token. */
export interface Claims {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly eventTypes: readonly string[];
  /** All claims by their names; tenant, roles and commands are read from here. */
  readonly raw: Readonly<Record<string, unknown>>;
  /** When the token expires, on the wall clock; undefined for never. */
  readonly expiresMs: number | undefined;
  /** The issuer, for logs and records; never a part of the token. */
  readonly issuedBy: string;
  /** The id of the API key, if the token is one. */
  readonly apiKeyId?: ApiKeyId | undefined;
  /**
   * Whether the token was revoked. Called for every use of the token, so it answers from memory. Once true, it stays
   * true.
   */
  readonly isRevoked: () => boolean;
}

export type Verified = Outcome<Claims, ErrorCode>;

export interface TokenProvider {
  /**
   * Refuses with `invalid_token` what it does not know, so that the next provider is asked. It is
   * not asked again for a token it accepted until that expires or is revoked. A provider that
   * revokes must announce it to the `Revocations` it was given.
   */
  verify(token: string): MaybePromise<Verified>;
}

export const neverRevoked = (): boolean => false;

/**
 * The hash by which a token is looked up: timing differences can reveal parts of the hash, never of the
 * token.
 */
export function fingerprintOf(token: string): string {
  return hash("sha256", token);
}

/** Compares secrets in constant time. */
export function isSameText(one: string, other: string): boolean {
  const bytes = (text: string): Buffer => Buffer.from(hash("sha256", text, "hex"));
  return timingSafeEqual(bytes(one), bytes(other));
}

interface Watcher {
  readonly identity: Identity;
  readonly onRevoked: () => void;
}

/**
 * Notifies holders of an identity, such as open streams and long polls, when the identity is revoked.
 * Providers announce that something changed; every watched identity is then checked again.
 */
export class Revocations {
  readonly #watchers: Set<Watcher> = new Set();

  /** Calls back once the identity is revoked, at once if it already is; returns a function that stops watching. */
  watch(identity: Identity, onRevoked: () => void): () => void {
    const watcher = { identity, onRevoked };
    if (identity.isRevoked()) onRevoked();
    else this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Called when an accepted token may have been revoked. */
  announce(): void {
    for (const watcher of this.#watchers) {
      if (!watcher.identity.isRevoked()) continue;
      this.#watchers.delete(watcher);
      watcher.onRevoked();
    }
  }
}
