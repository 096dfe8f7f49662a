/** Text files that come with this package. Where there are no files, the build puts them in here. */
import { readFileSync } from "node:fs";

const ofPackage = new URL("../../../", import.meta.url);

export function packageFile(name: PackageFile): string {
  return readFileSync(new URL(name, ofPackage), "utf8");
}

export type PackageFile =
  | "package.json"
  | "api-page/index.html"
  | "api-page/page.css"
  | "api-page/page.js";
