/**
 * Tokens from the configuration. They are held and compared as hashes, so that how long a comparison
 * takes tells nothing about a token.
 */
import { hash } from "node:crypto";
import type { StaticTokenConfig } from "../config/settings.ts";

export class StaticTokens {
  readonly #byHash: ReadonlyMap<string, StaticTokenConfig>;

  constructor(tokens: readonly StaticTokenConfig[]) {
    this.#byHash = new Map(tokens.map((each) => [hash("sha256", each.token), each]));
  }

  find(token: string): StaticTokenConfig | undefined {
    return this.#byHash.get(hash("sha256", token));
  }
}
