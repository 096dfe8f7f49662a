/**
 * A checkout of this repository: this one, or another that it is measured against. Only what older
 * ones have, too, is relied on: `launchServer` of the server, and the broker of the benchmarks.
 */
import type { ChildProcess, StdioOptions } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Option, UsageError } from "./options.ts";

export interface Checkout {
  readonly name: "here" | "there" | "floor";
  readonly root: string;
}

export const here: Checkout = { name: "here", root: join(import.meta.dirname, "../..") };

/** Stands for a server that does only what any server has to; see `floor-server.ts`. */
export const floor: Checkout = { name: "floor", root: here.root };

/** The checkouts to measure by turns: this one, behind the other one if there is one. */
export function againstOption(): Option<readonly Checkout[]> {
  return {
    text: "",
    read: (name, given) => {
      if (given === "") return [here];
      const root = resolve(given);
      const missing = ["packages/server/package.json", "node_modules"].find(
        (path) => !existsSync(join(root, path)),
      );
      if (missing !== undefined) {
        throw new UsageError(
          `${name} is ${given}; it takes a checkout with its packages installed, ` +
            `but there is no ${missing}`,
        );
      }
      return [{ name: "there", root }, here];
    },
  };
}

/** The file with the broker that the engine benchmark drives. */
export function brokerFile({ root }: Checkout): string {
  return join(root, "tests", "bench", "open-broker.ts");
}

type LaunchServer = (options: {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdio: StdioOptions;
}) => ChildProcess;

/** What starts a server in the way of that checkout, under whichever name its package offers it. */
export async function serverLauncher({ root }: Checkout): Promise<LaunchServer> {
  const folder = join(root, "packages", "server");
  const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, { readonly source: string }>>;
  };
  const entry = Object.values(exports)
    .map(({ source }) => join(folder, source))
    .find((file) => readFileSync(file, "utf8").includes("launchServer"));
  if (entry === undefined) throw new Error(`no entry of the server of ${root} can launch it`);
  const { launchServer } = (await import(pathToFileURL(entry).href)) as {
    readonly launchServer: LaunchServer;
  };
  return launchServer;
}
