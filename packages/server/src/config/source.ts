/**
 * The output of a source of configuration: named values that are not checked yet, and complaints about
 * unknown names. A complaint has only the name: a value without a row may be a secret.
 */

import { inactiveSettings } from "./go-compat/inactive-settings.ts";
import { settingNames } from "./setting-table.ts";

export interface Origin {
  /** In words: `file ./codeq.yaml`, `environment variable PORT`, `flag --port`. */
  readonly where: string;
  /** How a value is written there, for the fix in a message. */
  readonly spell: (value: string) => string;
}

export interface Written {
  readonly name: string;
  readonly value: unknown;
  readonly origin: Origin;
}

export interface Source {
  readonly written: readonly Written[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export const configPathFlag = "--config";
export const configPathEnv = "CODEQ_CONFIG_PATH";

export const inactiveNames: readonly string[] = inactiveSettings.map((row) => row.name);
export const knownNames: readonly string[] = [...settingNames, ...inactiveNames];
