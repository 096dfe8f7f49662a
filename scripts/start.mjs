/**
 * `npm start`: installs and compiles what is missing, then runs the server with the arguments that
 * were given and ends as it ends. Plain JavaScript for Node 18 and later.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { buildPackage } from "./build.mjs";
import { buildConsole } from "./build-console.mjs";
import { childEnvironment, ensureReady, fail, root } from "./ensure-ready.mjs";

const node = ensureReady();
await buildConsole();
buildPackage(node, "server");

const launch = pathToFileURL(join(root, "packages", "server", "dist", "start", "launch.js")).href;
const { launchServer, standInFor } = await import(launch);
const args = process.argv.slice(2);
const env = childEnvironment();
try {
  process.exit(await standInFor(() => launchServer({ node, args, env, stdio: "inherit" }), env));
} catch (error) {
  fail(`the server could not be started: ${error.message}`);
}
