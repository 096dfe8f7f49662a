/** Fetches the keys of identity servers again before they expire. Nothing waits for a fetch. */
import type { KeySet } from "../access/key-set.ts";
import type { Job } from "./ticker.ts";

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
