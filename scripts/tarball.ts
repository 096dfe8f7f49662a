/** `npm run tarball -- client server [--out <directory>]`: packs packages as they are published. */
import { parseArgs } from "node:util";
import { packPackage } from "./package-tarball.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: "tarballs" } },
});
if (positionals.length === 0) {
  console.error("error: name the packages to pack, for example: npm run tarball -- client server");
  process.exitCode = 1;
}
for (const folder of positionals) console.log(packPackage(folder, values.out));
