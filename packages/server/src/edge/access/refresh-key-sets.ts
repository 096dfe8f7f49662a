/** Fetches the keys of identity servers again before they expire. Nothing waits for a fetch. */

import type { Job } from "../../core/sweeps/ticker.ts";
import type { KeySet } from "./key-set.ts";

export function refreshKeySets(keySets: readonly KeySet[]): Job {
  return {
    name: "refresh-key-sets",
    nextMs: () => {
      const next = keySets.map((each) => each.nextMs()).filter((ms) => ms !== undefined);
      return next.length === 0 ? undefined : Math.min(...next);
    },
    runOnce: async () => {
      for (const each of keySets) each.work();
    },
  };
}
