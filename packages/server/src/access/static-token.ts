/**
 * Tokens from the configuration. They are held and compared as hashes, so that how long a comparison
 * takes tells nothing about a token.
 */
import { hash } from "node:crypto";
import type { StaticTokenConfig } from "../config/settings.ts";

export class StaticTokens<Found> {
  readonly #byHash: ReadonlyMap<string, Found>;

  /** `found` says what a token stands for, once for all of its uses. */
  constructor(tokens: readonly StaticTokenConfig[], found: (token: StaticTokenConfig) => Found) {
    this.#byHash = new Map(tokens.map((each) => [hash("sha256", each.token), found(each)]));
  }

  find(token: string): Found | undefined {
    return this.#byHash.get(hash("sha256", token));
  }
}
