/** The one place that touches the process to read its configuration; everything else is passed in. */
import { readFileSync } from "node:fs";
import { type LoadedConfig, loadConfig } from "./load.ts";

/** `argv` are the arguments after the program's own name. */
export function loadProcessConfig(argv: readonly string[]): LoadedConfig {
  return loadConfig({ argv, env: process.env, readFile: (path) => readFileSync(path, "utf8") });
}
