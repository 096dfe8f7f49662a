/** Programs of the Go client, where Go is installed and the modules can be had. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../e2e/server-process.ts";
import { goEnvironment } from "../go-environment.ts";

export const goClient: string = join(root, "clients/go");

/** Why there is no Go here, or false. */
export const noGo: string | false =
  spawnSync("go", ["version"]).status === 0 ? false : "Go is not installed";

/** Where Go keeps modules and what it has compiled, for programs with another home. */
export function goCaches(): Record<string, string> {
  const { stdout } = spawnSync(
    "go",
    ["env", "-json", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOFLAGS"],
    {
      encoding: "utf8",
    },
  );
  return JSON.parse(stdout) as Record<string, string>;
}

/** The driver for the conformance scenarios, or why there is none. It is removed with this process. */
export function goConformanceDriver(): { path: string } | { missing: string } {
  const directory = mkdtempSync(join(tmpdir(), "codeq-go-driver-"));
  process.once("exit", () => rmSync(directory, { recursive: true }));
  const path = join(directory, "driver");
  const { status, stderr } = spawnSync("go", ["build", "-o", path, "./internal/conformance"], {
    cwd: goClient,
    env: goEnvironment,
    encoding: "utf8",
  });
  return status === 0 ? { path } : { missing: `Go cannot build it: ${stderr ?? "not installed"}` };
}
