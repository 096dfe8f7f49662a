/** What all bundles of the server have in common: that of the executable, and those that tests start. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { BuildOptions, Plugin } from "esbuild";

const root = join(import.meta.dirname, "..");

export const bundling = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  target: "node24",
  conditions: ["source"],
  // Its other form loads gRPC past the bundle: a second copy of it, or none where there are no packages.
  alias: { "@opentelemetry/otlp-grpc-exporter-base": inCommonJs("otlp-grpc-exporter-base") },
  logLevel: "warning",
} satisfies BuildOptions;

function inCommonJs(name: string): string {
  return join(root, "node_modules/@opentelemetry", name, "dist/index.cjs");
}

/** A module of this repository that asks for its own URL gets that of the place given here. */
export function placed(placeOf: (source: string) => string): Plugin {
  return {
    name: "placed",
    setup({ onLoad }) {
      onLoad({ filter: /\/packages\/.*\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        if (!text.includes("import.meta.url")) return undefined;
        const url = JSON.stringify(pathToFileURL(placeOf(path)).href);
        return { contents: text.replaceAll("import.meta.url", url), loader: "ts" };
      });
    },
  };
}

/** The start of a bundle: packages of the older kind ask for parts of Node with `require`. */
export const requireFrom = (place: string): string =>
  'import { createRequire as createRequireOfNode } from "node:module";' +
  `const require = createRequireOfNode(${place});`;
