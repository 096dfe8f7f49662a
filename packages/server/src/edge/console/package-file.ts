/** Files that come with this package. In the single executable, the build embeds them here. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

const ofPackage = new URL("../../../", import.meta.url);

export function packageFile(name: PackageFile): string {
  return readFileSync(new URL(name, ofPackage), "utf8");
}

export function packageVersion(): string {
  return (JSON.parse(packageFile("package.json")) as { version: string }).version;
}

export type PackageFile =
  | "package.json"
  | "api-page/index.html"
  | "api-page/page.css"
  | "api-page/page.js";

export interface ConsoleFile {
  readonly plain: Buffer;
  readonly gz: Buffer;
  readonly br: Buffer;
}

/** The web console, by the names of its files; none when it was not built. */
export function consoleFiles(): ReadonlyMap<string, ConsoleFile> {
  const directory = new URL("console/", ofPackage);
  const names = existsSync(directory) ? readdirSync(directory) : [];
  const read = (name: string): Buffer => readFileSync(new URL(name, directory));
  return new Map(
    names
      .filter((name) => names.includes(`${name}.br`))
      .map((name) => [name, { plain: read(name), gz: read(`${name}.gz`), br: read(`${name}.br`) }]),
  );
}
