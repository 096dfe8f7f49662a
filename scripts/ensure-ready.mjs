/**
 * Makes a fresh checkout usable: installs what the lockfile lists when that is not what is there,
 * and finds a Node that can run the server. Plain JavaScript for Node 18 and later, because it runs
 * before anything is installed.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** The oldest Node that runs TypeScript without flags and has all that the server uses. */
const oldestNode = [22, 18];

/**
 * Returns the path of the Node to run everything with. Ends the process with a message when the
 * installation fails or there is no such Node.
 */
export function ensureReady() {
  const reason = whyInstall(root);
  if (reason !== undefined) install(reason);
  const node = findNode();
  if (node === undefined) {
    fail(
      `codeQ needs Node ${oldestNode.join(".")} or later and this is ${process.version}; ` +
        "npm brings one for linux and windows on x64 and linux on arm64, elsewhere install Node 24",
    );
  }
  return node;
}

/** The environment for children: the tools of this checkout come first. */
export function childEnvironment(extra = {}) {
  const name = Object.keys(process.env).find((key) => key.toUpperCase() === "PATH") ?? "PATH";
  const path = [join(root, "node_modules", ".bin"), process.env[name] ?? ""].join(delimiter);
  return { ...process.env, [name]: path, ...extra };
}

/** Runs one of the JavaScript tools in node_modules; gives its exit code. */
export function runTool(node, script, args, options = {}) {
  const result = spawnSync(node, [join(root, "node_modules", script), ...args], {
    cwd: root,
    stdio: "inherit",
    env: childEnvironment(),
    ...options,
  });
  return result.status ?? 1;
}

export function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

/**
 * Why the installation is not the one that the lockfile describes; `undefined` when it is. npm leaves
 * a record of what it installed as the last thing it does, so an interrupted installation has none.
 */
export function whyInstall(directory) {
  const installed = readLock(join(directory, "node_modules", ".package-lock.json"));
  if (installed === undefined) return "nothing is installed yet";
  const wanted = readLock(join(directory, "package-lock.json"));
  if (wanted === undefined) return undefined;
  for (const [path, entry] of Object.entries(wanted)) {
    if (!path.startsWith("node_modules/")) continue;
    const found = installed[path];
    // Optional packages of other platforms are listed but not installed.
    if (found === undefined && entry.optional === true) continue;
    const same = found?.version === entry.version && found?.integrity === entry.integrity;
    if (!same) return `${path.slice("node_modules/".length)} is not as in package-lock.json`;
  }
  return undefined;
}

function readLock(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).packages ?? {};
  } catch {
    // Missing or cut short: either way npm has to run.
    return undefined;
  }
}

/** Exactly what the lockfile says, or nothing: another installation would be one that nobody checked. */
function install(reason) {
  console.error(`codeQ: running npm ci (${reason})`);
  if (npm(["ci"])) return;
  fail("npm ci failed; see above. When package-lock.json is what it refuses, run npm install");
}

function npm(words) {
  // NODE_ENV=production would leave out the compiler, which a start from source needs.
  const kinds = ["--include=dev", "--include=optional"];
  // Warnings are about packages of others, which need a newer Node than the one that npm runs on.
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  const args = [...words, ...kinds, "--ignore-scripts", ...quiet];
  const fromNpm = process.env.npm_execpath;
  const viaNode = fromNpm !== undefined && /\.c?js$/.test(fromNpm) && existsSync(fromNpm);
  const [command, first] = viaNode ? [process.execPath, [fromNpm]] : ["npm", []];
  // The output goes to stderr: what the server writes to stdout must stay readable by machines.
  const result = spawnSync(command, [...first, ...args], {
    cwd: root,
    stdio: ["ignore", 2, 2],
    shell: !viaNode && process.platform === "win32",
  });
  if (result.error !== undefined) fail(`npm could not be started: ${result.error.message}`);
  return result.status === 0;
}

function findNode() {
  const bundled =
    process.platform === "win32"
      ? join(root, "node_modules", `node-win-${process.arch}`, "bin", "node.exe")
      : join(root, "node_modules", ".bin", "node");
  for (const candidate of [bundled, process.execPath]) {
    if (!existsSync(candidate)) continue;
    const answer = spawnSync(candidate, ["--version"], { encoding: "utf8" });
    if (answer.status === 0 && isNewEnough(answer.stdout)) return candidate;
  }
  return undefined;
}

export function isNewEnough(version) {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  return major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1]);
}
