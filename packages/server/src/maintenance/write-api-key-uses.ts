/** Writes when API keys were last used: many keys at once, and each key only at long intervals. */
import type { ApiKeys } from "../access/api-keys.ts";
import type { Job } from "./ticker.ts";

export function writeApiKeyUses(apiKeys: ApiKeys): Job {
  return {
    name: "write-api-key-uses",
    nextMs: () => apiKeys.writeUsesAtMs,
    runOnce: () => apiKeys.writeUses(),
  };
}
