/**
 * Packs a package of the workspace as it is published. What it needs of other published packages is a
 * dependency like any other; packages of the workspace that nobody else needs travel inside it, and
 * what those need from outside becomes its own dependency. So the tarballs install and work from an
 * empty folder. A build server that vouches for where packages come from names its repository in the
 * environment, and the registry compares it with the one in the manifest.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";

const root = join(import.meta.dirname, "..");
const scope = "@codeq/";

/** What users install, by the names of their folders; all others travel inside these. */
export const publishedFolders: readonly string[] = ["client", "nest", "outbox", "server", "cli"];

interface PackOptions {
  /** The URL of the repository, as the manifest is to have it. */
  readonly repository?: string | undefined;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

/** `folder` is the name below `packages`; the path of the tarball is returned. */
export function packPackage(
  folder: string,
  outDirectory: string,
  { repository }: PackOptions = {},
): string {
  if (!publishedFolders.includes(folder)) {
    throw new Error(`${folder} is not published; there are ${publishedFolders.join(", ")}`);
  }
  const stage = mkdtempSync(join(tmpdir(), "codeq-pack-"));
  try {
    run(process.execPath, [
      join(root, "node_modules/typescript/bin/tsc"),
      "-b",
      `packages/${folder}`,
    ]);
    if (folder === "server") run(process.execPath, [join(root, "scripts/build-console.mjs")]);
    const manifest = readManifest(folder);
    const bundled = bundledWith(manifest);
    const external = Object.assign({}, ...[manifest, ...bundled.values()].map(externalOf));
    writePackage(stage, folder, {
      ...published(manifest),
      ...(repository === undefined ? {} : { repository: repositoryOf(folder, repository) }),
      dependencies: { ...external, ...versionsOf(bundled) },
      bundleDependencies: [...bundled.keys()],
    });
    for (const [name, each] of bundled) {
      const inside = join(stage, "node_modules", name);
      writePackage(inside, folderOf(name), published(each));
    }
    for (const file of ["README.md", "LICENSE"]) copyText(folder, file, stage);
    mkdirSync(outDirectory, { recursive: true });
    const out = ["pack", "--silent", "--pack-destination", resolve(outDirectory)];
    return join(outDirectory, run("npm", out, stage).trim());
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Of the build server that runs this; undefined elsewhere. */
export function repositoryInEnvironment(env: NodeJS.ProcessEnv): string | undefined {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = env;
  return server === undefined || name === undefined ? undefined : `git+${server}/${name}.git`;
}

function repositoryOf(folder: string, url: string): Record<string, string> {
  return { type: "git", url, directory: `packages/${folder}` };
}

const folderOf = (name: string): string => name.slice(scope.length);

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(root, "packages", folder, "package.json"), "utf8"));
}

/** Whether it is a package of this workspace that has no tarball of its own. */
function isInternal(name: string): boolean {
  return name.startsWith(scope) && !publishedFolders.includes(folderOf(name));
}

/** The packages without a tarball of their own that a package needs when it runs. */
function bundledWith(
  manifest: Manifest,
  found = new Map<string, Manifest>(),
): Map<string, Manifest> {
  for (const name of Object.keys(manifest.dependencies ?? {})) {
    if (!isInternal(name) || found.has(name)) continue;
    const each = readManifest(folderOf(name));
    found.set(name, each);
    bundledWith(each, found);
  }
  return found;
}

function externalOf({ dependencies = {} }: Manifest): Record<string, string> {
  const outside = Object.entries(dependencies).filter(([name]) => !isInternal(name));
  return Object.fromEntries(outside);
}

function versionsOf(packages: ReadonlyMap<string, Manifest>): Record<string, string> {
  return Object.fromEntries([...packages].map(([name, { version }]) => [name, version]));
}

/** Without what only this repository needs: sources, and what development takes. */
function published(manifest: Manifest): Manifest {
  const { private: _private, devDependencies: _dev, dependencies: _all, ...others } = manifest;
  const targets = Object.entries(manifest.exports ?? {}).map(([path, conditions]) => {
    if (typeof conditions === "string") return [path, conditions];
    const { source: _source, ...kept } = conditions;
    return [path, kept];
  });
  return { ...others, exports: Object.fromEntries(targets) } as Manifest;
}

/** Compiled code with its declarations, of the sources that there are now. */
function writePackage(target: string, folder: string, manifest: Manifest): void {
  mkdirSync(target, { recursive: true });
  writeFileSync(join(target, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  // Beside what is compiled: programs, and files that the server hands out as they are.
  for (const name of ["bin", "api-page", "console", "etcd"]) {
    const path = join(root, "packages", folder, name);
    if (existsSync(path)) cpSync(path, join(target, name), { recursive: true });
  }
  const from = join(root, "packages", folder, "dist");
  const sources = join(root, "packages", folder, "src");
  cpSync(from, join(target, "dist"), {
    recursive: true,
    filter: (path) => {
      if (statSync(path).isDirectory()) return true;
      const match = /^(.*?)\.(d\.ts|js)$/.exec(relative(from, path));
      return match !== null && existsSync(join(sources, `${match[1]}.ts`));
    },
  });
}

function copyText(folder: string, file: string, stage: string): void {
  const own = join(root, "packages", folder, file);
  cpSync(existsSync(own) ? own : join(root, file), join(stage, file));
}

function run(command: string, args: readonly string[], cwd: string = root): string {
  return execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
}
