/** Builds the providers that the configuration names. Equal key sets are fetched once. */
import type { ProviderConfig } from "../config/settings.ts";
import { JwtProvider } from "./jwt-provider.ts";
import { KeySet, type KeySetParts } from "./key-set.ts";
import { StaticTokens } from "./static-tokens.ts";
import type { TokenProvider } from "./token-provider.ts";

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
