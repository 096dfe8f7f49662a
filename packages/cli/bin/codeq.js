#!/usr/bin/env node
/**
 * The entry of the command. Says what is wrong when Node is too old to understand the rest, and
 * compiles first in a checkout whose sources have changed. Plain JavaScript for Node 18 and later.
 */
import { existsSync } from "node:fs";
import * as module from "node:module";

const oldest = [22, 18];

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
  process.stderr.write(
    `error: codeq needs Node ${oldest.join(".")} or later, and this is ${process.versions.node}\n` +
      "  next: install Node 24 (nodejs.org), then run the same command again\n",
  );
  process.exit(2);
}

// Settings of the compiler are not part of a package, so this is a checkout.
if (existsSync(new URL("../tsconfig.json", import.meta.url))) {
  const { buildPackage } = await import("../../../scripts/build.mjs");
  const { buildConsole } = await import("../../../scripts/build-console.mjs");
  await buildConsole();
  buildPackage(process.execPath, "cli");
}
module.enableCompileCache?.();
await import("../dist/main.js");
