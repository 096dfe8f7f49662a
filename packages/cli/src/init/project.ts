/** Detects the properties of the project that `init` writes into. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TemplateChoice } from "./templates.ts";

interface Manifest {
  readonly type?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

export interface Project extends TemplateChoice {
  readonly hasManifest: boolean;
  /** Packages that the templates need and the project does not name. */
  readonly missing: readonly string[];
}

export function readProject(directory: string, language: "ts" | "js" | undefined): Project {
  const manifest = readManifest(join(directory, "package.json"));
  const packages = { ...manifest?.dependencies, ...manifest?.devDependencies };
  // Node runs both; those who use TypeScript want types, and so do those who have nothing yet.
  const isJavaScript = manifest !== undefined && !usesTypeScript(directory, packages);
  return {
    typescript: language === undefined ? !isJavaScript : language === "ts",
    isModule: manifest?.type === "module",
    hasManifest: manifest !== undefined,
    missing: missingIn(packages),
  };
}

/** Tests run a real server, which comes along with the command line. */
function missingIn(packages: object): string[] {
  const hasServer = "@codeq/server" in packages || "@codeq/cli" in packages;
  return [
    ...("@codeq/client" in packages ? [] : ["@codeq/client"]),
    ...(hasServer ? [] : ["@codeq/server"]),
  ];
}

function usesTypeScript(directory: string, packages: object): boolean {
  return existsSync(join(directory, "tsconfig.json")) || "typescript" in packages;
}

function readManifest(path: string): Manifest | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Manifest;
  } catch {
    // None, or one that npm will complain about.
    return undefined;
  }
}
