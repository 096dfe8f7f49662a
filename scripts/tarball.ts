/**
 * `npm run tarball [-- client server] [--out <directory>]`: packs packages as they are published, all of
 * them unless told.
 */
import { parseArgs } from "node:util";
import { packPackage, publishedFolders } from "./package-tarball.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: "tarballs" } },
});
const folders = positionals.length === 0 ? publishedFolders : positionals;
for (const folder of folders) console.log(packPackage(folder, values.out));
