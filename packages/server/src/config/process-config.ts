/** The one place that touches the process to read its configuration; everything else is passed in. */
import { readFileSync } from "node:fs";
import { type CheckFiles, type LoadedConfig, loadConfig } from "./load.ts";

/** `argv` are the arguments after the program's own name. */
export function loadProcessConfig(argv: readonly string[], checkFiles?: CheckFiles): LoadedConfig {
  const readFile = (path: string): string => readFileSync(path, "utf8");
  return loadConfig({ argv, env: process.env, readFile, checkFiles });
}
