/**
 * Bundles the web console into the package of the server when its sources are not the ones that were
 * bundled last. Names of scripts and styles carry a hash, so that browsers may keep them for ever; every
 * file also exists compressed. Plain JavaScript for Node 18 and later.
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { root } from "./ensure-ready.mjs";

const source = join(root, "packages/console/src");
/** What the server hands out. */
export const consoleDirectory = join(root, "packages/server/console");
const stamp = ".built-from";

export async function buildConsole() {
  const hash = sourceHash();
  const stampPath = join(consoleDirectory, stamp);
  if (existsSync(stampPath) && readFileSync(stampPath, "utf8") === hash) return;
  console.error("codeQ: building the console");
  const files = await bundle();
  // Put together elsewhere and moved there, so that a server never finds half of them.
  const stage = join(root, "node_modules/.cache", `console-${process.pid}`);
  rmSync(stage, { recursive: true, force: true });
  mkdirSync(stage, { recursive: true });
  for (const [name, bytes] of files) {
    writeFileSync(join(stage, name), bytes);
    writeFileSync(join(stage, `${name}.gz`), gzipSync(bytes, { level: 9 }));
    const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
    writeFileSync(join(stage, `${name}.br`), brotliCompressSync(bytes, { params }));
  }
  writeFileSync(join(stage, stamp), hash);
  rmSync(consoleDirectory, { recursive: true, force: true });
  try {
    renameSync(stage, consoleDirectory);
  } catch (error) {
    // Somebody else has built the same at the same time.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Names and contents of all files. */
async function bundle() {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: { main: join(source, "main.tsx") },
    outdir: consoleDirectory,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2023",
    minify: true,
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
    write: false,
  });
  const files = outputFiles.map(({ path, contents }) => [
    path.slice(consoleDirectory.length + 1),
    contents,
  ]);
  const named = (pattern) => files.map(([name]) => name).find((name) => pattern.test(name));
  const page = readFileSync(join(source, "index.html"), "utf8")
    .replace("/ui/main.js", `/ui/${named(/^main-.*\.js$/)}`)
    .replace("/ui/main.css", `/ui/${named(/^main-.*\.css$/)}`);
  files.push(["index.html", Buffer.from(page)]);
  files.push(["mark.svg", readFileSync(join(source, "mark.svg"))]);
  return files;
}

function sourceHash() {
  const hash = createHash("sha256");
  const files = [
    "package-lock.json",
    "scripts/build-console.mjs",
    ...under("packages/console/src"),
  ];
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update("\0");
  return hash.digest("hex");
}

function under(directory) {
  return readdirSync(join(root, directory), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = `${directory}/${entry.name}`;
      if (entry.isDirectory()) return under(path);
      return entry.name.endsWith(".test.ts") ? [] : [path];
    });
}

if (process.argv[1] === import.meta.filename) await buildConsole();
