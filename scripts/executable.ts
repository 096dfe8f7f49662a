/** `npm run executable [-- --out <directory>]`: builds `codeq` as one file for this system. */
import { parseArgs } from "node:util";
import { buildExecutable } from "./build-executable.ts";

const { values } = parseArgs({ options: { out: { type: "string", default: "executable" } } });
console.log(await buildExecutable(values.out));
