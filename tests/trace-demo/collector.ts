/**
 * An OpenTelemetry Collector that takes OTLP and hands traces to Zipkin, built by its own builder from the Go module
 * proxy, or the one that CODEQ_OTELCOL names. What was built is kept in the user's cache folder.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Child } from "../e2e/server-process.ts";
import { toolCache } from "../tool-cache.ts";
import { PartError, untilAnswered } from "./parts.ts";

const version = "0.158.0";
/** The number of the parts that are stable, in the same release. */
const stable = "1.64.0";
const core = "go.opentelemetry.io/collector";
const contrib = "github.com/open-telemetry/opentelemetry-collector-contrib";

export function collectorBinary(): string {
  const named = process.env["CODEQ_OTELCOL"] ?? "";
  if (named !== "") return named;
  const kept = join(toolCache, `otelcol-${version}`);
  if (existsSync(kept)) return kept;
  console.log(`building the OpenTelemetry Collector ${version}; this takes a few minutes, once`);
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, "otelcol-build-"));
  try {
    const config = join(scratch, "builder.json");
    writeFileSync(config, JSON.stringify(builderConfig(join(scratch, "out"))));
    const args = ["run", `${core}/cmd/builder@v${version}`, "--config", config];
    const env = { ...process.env, CGO_ENABLED: "0" };
    const { status, stderr } = spawnSync("go", args, { cwd: scratch, env, encoding: "utf8" });
    const made = join(scratch, "out", "otelcol");
    if (!existsSync(made)) {
      throw new PartError(`the collector could not be built with Go (${status}): ${stderr}`);
    }
    renameSync(made, kept);
    return kept;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function builderConfig(output: string): object {
  return {
    dist: { name: "otelcol", output_path: output, version },
    receivers: [{ gomod: `${core}/receiver/otlpreceiver v${version}` }],
    exporters: [{ gomod: `${contrib}/exporter/zipkinexporter v${version}` }],
    // The second is the one that it wants for values without a scheme.
    providers: ["yamlprovider", "envprovider"].map((name) => {
      return { gomod: `${core}/confmap/provider/${name} v${stable}` };
    }),
  };
}

/** Resolves when it takes spans at this port, over HTTP. */
export async function startCollector(
  binary: string,
  { port, zipkin }: { readonly port: number; readonly zipkin: string },
): Promise<Child> {
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { zipkin: { endpoint: `${zipkin}/api/v2/spans` } },
    service: {
      pipelines: { traces: { receivers: ["otlp"], exporters: ["zipkin"] } },
      telemetry: { metrics: { level: "none" } },
    },
  };
  const child = new Child(
    spawn(binary, ["--config", `yaml:${JSON.stringify(config)}`], {
      stdio: ["ignore", "ignore", "pipe"],
    }),
  );
  await untilAnswered(`http://127.0.0.1:${port}/`, child);
  return child;
}
