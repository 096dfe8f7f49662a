/**
 * `npm run tarball [-- client server] [--out <directory>] [--repository <url>]`: packs packages as they
 * are published; default: all of them. The repository is that of the build server, if it names one.
 */
import { parseArgs } from "node:util";
import { packPackage, publishedFolders, repositoryInEnvironment } from "./package-tarball.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: "tarballs" }, repository: { type: "string" } },
});
const folders = positionals.length === 0 ? publishedFolders : positionals;
const { out, repository = repositoryInEnvironment(process.env) } = values;
for (const folder of folders) console.log(packPackage(folder, out, { repository }));
