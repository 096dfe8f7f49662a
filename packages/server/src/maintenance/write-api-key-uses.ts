/** Writes when API keys were last used: many at once, and one key no more often than it matters. */
import type { ApiKeys } from "../access/api-keys.ts";
import type { Job } from "./ticker.ts";

export function writeApiKeyUses(apiKeys: ApiKeys): Job {
  return {
    name: "write-api-key-uses",
    nextMs: () => apiKeys.writeUsesAtMs,
    runOnce: () => apiKeys.writeUses(),
  };
}
