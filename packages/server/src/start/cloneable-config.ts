/** The configuration without values that cannot be sent to a thread. */
import type { Config } from "../config/settings.ts";

export function cloneable(config: Config): Config {
  return structuredClone(
    Object.fromEntries(Object.entries(config).filter(([, value]) => typeof value !== "function")),
  ) as unknown as Config;
}
