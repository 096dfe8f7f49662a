/** Writes when API keys were last used: many keys at once, and each key only at long intervals. */

import type { Job } from "../../core/sweeps/ticker.ts";
import type { ApiKeys } from "./api-keys.ts";

export function writeApiKeyUses(apiKeys: ApiKeys): Job {
  return {
    name: "write-api-key-uses",
    nextMs: () => apiKeys.writeUsesAtMs,
    runOnce: () => apiKeys.writeUses(),
  };
}
