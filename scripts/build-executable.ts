/**
 * Builds `codeq` as one file that needs no Node on the machine: the command line, the server and its
 * threads, bundled, with the native part of the storage, inside a copy of the Node that runs this.
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { build, type Plugin } from "esbuild";
import {
  consoleFiles,
  type PackageFile,
} from "../packages/server/src/edge/console/package-file.ts";
import { bundling, placed, requireFrom } from "./bundling.ts";
import { parts, sourceRoot } from "./in-executable/parts.ts";

const root = join(import.meta.dirname, "..");
const inside = join(import.meta.dirname, "in-executable");
const native = join(
  root,
  `node_modules/classic-level/prebuilds/${process.platform}-${process.arch}/classic-level.node`,
);

/** The path of the executable is returned. */
export async function buildExecutable(outDirectory: string): Promise<string> {
  const stage = mkdtempSync(join(tmpdir(), "codeq-executable-"));
  try {
    execFileSync(process.execPath, [join(import.meta.dirname, "build-console.mjs")]);
    await bundle(stage);
    const blob = writeBlob(stage);
    const path = join(resolve(outDirectory), "codeq");
    mkdirSync(outDirectory, { recursive: true });
    // One that runs cannot be written to.
    rmSync(path, { force: true });
    copyFileSync(process.execPath, path);
    inject(blob, path);
    chmodSync(path, 0o755);
    return path;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

async function bundle(outdir: string): Promise<void> {
  await build({
    ...bundling,
    outdir,
    entryPoints: parts,
    format: "esm",
    splitting: true,
    banner: { js: requireFrom("process.execPath") },
    plugins: [inExecutable, placed((path) => join(sourceRoot, relative(root, path)))],
  });
  const boot = join(inside, "boot.ts");
  await build({ ...bundling, outdir, entryPoints: { boot }, format: "cjs" });
}

/** What is different in the executable: there are no files beside a module. */
const inExecutable: Plugin = {
  name: "in-executable",
  setup({ onResolve, onLoad }) {
    for (const name of ["worker-threads", "child-process"]) {
      onResolve({ filter: new RegExp(`^node:${name.replace("-", "_")}$`) }, ({ importer }) =>
        importer.startsWith(join(root, "packages")) ? { path: join(inside, `${name}.ts`) } : {},
      );
    }
    onLoad({ filter: /classic-level\/binding\.js$/ }, () => ({
      contents: `module.exports = require("${join(inside, "native-part.ts")}").loadNativePart();`,
      resolveDir: inside,
    }));
    onLoad({ filter: /packages\/cli\/src\/version\.ts$/ }, () => ({
      contents: `export const cliVersion = ${JSON.stringify(version())};`,
    }));
    onLoad({ filter: /packages\/server\/src\/edge\/console\/package-file\.ts$/ }, () => ({
      contents: `const files = ${JSON.stringify(serverFiles())};
        const consoles = ${JSON.stringify(embeddedConsole())};
        const bytes = (text) => Buffer.from(text, "base64");
        export const packageFile = (name) => files[name];
        export const packageVersion = () => JSON.parse(files["package.json"]).version;
        export const consoleFiles = () => new Map(Object.entries(consoles).map(
          ([name, { plain, gz, br }]) => [name, { plain: bytes(plain), gz: bytes(gz), br: bytes(br) }]));`,
    }));
  },
};

/** Node looks for its program under this name once the fuse is set. */
function inject(blob: string, path: string): void {
  const fuse = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
  const postject = join(root, "node_modules/postject/dist/cli.js");
  const args = [postject, path, "NODE_SEA_BLOB", blob, "--sentinel-fuse", fuse];
  // It prints warnings about names of sections, which Node has no use for.
  execFileSync(process.execPath, args, { stdio: "pipe" });
}

function version(): string {
  return JSON.parse(readFileSync(join(root, "packages/cli/package.json"), "utf8")).version;
}

/** What the server reads of its own package. */
function serverFiles(): Readonly<Record<PackageFile, string>> {
  const read = (name: PackageFile): string =>
    readFileSync(join(root, "packages/server", name), "utf8");
  return {
    "package.json": read("package.json"),
    "api-page/index.html": read("api-page/index.html"),
    "api-page/page.css": read("api-page/page.css"),
    "api-page/page.js": read("api-page/page.js"),
  };
}

/** The files of the web console as text. */
function embeddedConsole(): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const files = [...consoleFiles()].map(([name, { plain, gz, br }]) => {
    const texts = { plain, gz, br };
    const encoded = Object.entries(texts).map(([kind, bytes]) => [kind, bytes.toString("base64")]);
    return [name, Object.fromEntries(encoded)];
  });
  return Object.fromEntries(files);
}

function writeBlob(stage: string): string {
  const modules = readdirSync(stage).map((name) => [name, join(stage, name)]);
  const output = join(stage, "codeq.blob");
  const config = join(stage, "config.json");
  writeFileSync(
    config,
    JSON.stringify({
      main: join(stage, "boot.js"),
      output,
      disableExperimentalSEAWarning: true,
      // The same as where the server is launched by a Node.
      execArgv: ["--max-semi-space-size=8"],
      assets: { ...Object.fromEntries(modules), "classic-level.node": native },
    }),
  );
  execFileSync(process.execPath, ["--experimental-sea-config", config], { stdio: "ignore" });
  return output;
}
