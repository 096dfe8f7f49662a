import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The packages of OpenTelemetry that a process loads that opens tracing. */
async function loadedWith(config: object): Promise<string[]> {
  const script = `
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({
      resolve(specifier, context, next) {
        if (specifier.startsWith("@opentelemetry/") || specifier.startsWith("@grpc/")) loaded.add(specifier);
        return next(specifier, context);
      },
    });
    await import("@codeq/server");
    const { openTracing } = await import(${JSON.stringify(import.meta.resolve("./open-telemetry.ts"))});
    await openTracing({ config: ${JSON.stringify(config)}, clock: {}, logger: {}, metrics: {} });
    console.log(JSON.stringify([...loaded]));
    process.exit(0);
  `;
  const args = ["--conditions=source", "--input-type=module", "--eval", script];
  const { stdout } = await run(process.execPath, args, { cwd: import.meta.dirname });
  return JSON.parse(stdout) as string[];
}

const on = {
  tracingEnabled: true,
  tracingServiceName: "codeq",
  tracingOtlpEndpoint: "localhost:4317",
  tracingOtlpProtocol: "http/protobuf",
  tracingOtlpInsecure: true,
  tracingOtlpHeaders: "",
  tracingSampleRatio: 1,
  tracingResourceAttributes: "",
  env: "dev",
};

test("nothing of OpenTelemetry is loaded while tracing is off", async () => {
  assert.deepEqual(await loadedWith({ tracingEnabled: false }), []);
});

test("only the exporter that is used is loaded when tracing is on", async () => {
  const overHttp = await loadedWith(on);
  assert.ok(overHttp.includes("@opentelemetry/exporter-trace-otlp-proto"));
  assert.ok(!overHttp.includes("@opentelemetry/exporter-trace-otlp-grpc"));
  const overGrpc = await loadedWith({ ...on, tracingOtlpProtocol: "grpc" });
  assert.ok(overGrpc.includes("@opentelemetry/exporter-trace-otlp-grpc"));
});
