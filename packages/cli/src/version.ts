/** The version in the manifest of this package; the single executable has this file replaced. */
import { readFileSync } from "node:fs";

const manifest = new URL("../package.json", import.meta.url);

export const cliVersion: string = (
  JSON.parse(readFileSync(manifest, "utf8")) as { version: string }
).version;
