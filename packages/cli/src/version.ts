/** The version of this package, as its manifest has it. */
import { readFileSync } from "node:fs";

const manifest = new URL("../package.json", import.meta.url);

export const cliVersion: string = (
  JSON.parse(readFileSync(manifest, "utf8")) as { version: string }
).version;
