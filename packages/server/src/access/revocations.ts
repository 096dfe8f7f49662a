/**
 * Notifies holders of an identity, such as open streams and long polls, when the identity is revoked.
 * Providers announce that something changed; every watched identity is then checked again.
 */
import type { Identity } from "./identity.ts";

interface Watcher {
  readonly identity: Identity;
  readonly onRevoked: () => void;
}

export class Revocations {
  readonly #watchers: Set<Watcher> = new Set();

  /** Calls back once, when the identity is taken back or is already; returns how to stop watching. */
  watch(identity: Identity, onRevoked: () => void): () => void {
    const watcher = { identity, onRevoked };
    if (identity.isRevoked()) onRevoked();
    else this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Some token that was accepted before may not be any more. */
  announce(): void {
    for (const watcher of this.#watchers) {
      if (!watcher.identity.isRevoked()) continue;
      this.#watchers.delete(watcher);
      watcher.onRevoked();
    }
  }
}
