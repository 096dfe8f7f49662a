/**
 * `npm run trace-demo`: one trace through real programs. A shop enqueues a task, a worker fails and then succeeds, the
 * server posts the result to the shop; all three send their spans to an OpenTelemetry Collector, and Zipkin shows the
 * trace. `--picture <file>` takes a picture of its page and ends.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../bench/workspace.ts";
import { launchChromium } from "../console/chromium.ts";
import { Child, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { collectorBinary, startCollector } from "./collector.ts";
import { PartError } from "./parts.ts";
import { spansOf, startZipkin, type ZipkinSpan, zipkinJar } from "./zipkin.ts";

/** What ends up in the trace, beside what the shop and the worker do. */
const lastSpans = ["codeq.webhook.task_result", "post /resized"];

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { picture: { type: "string" } } });
  const [jar, binary] = [await zipkinJar(), collectorBinary()];
  await using ended = new AsyncDisposableStack();
  const keep = <C extends Child>(child: C): C => {
    ended.defer(() => child.kill());
    return child;
  };
  const zipkinPort = await freePort();
  const zipkin = `http://127.0.0.1:${zipkinPort}`;
  keep(await startZipkin(jar, zipkinPort));
  const port = await freePort();
  keep(await startCollector(binary, { port, zipkin }));
  const collector = `http://127.0.0.1:${port}`;
  const directory = temporaryDirectory();
  ended.defer(() => directory.dispose());
  const server = keep(
    await startServer({
      dataDir: directory.path,
      env: {
        CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true",
        TRACING_ENABLED: "true",
        OTEL_EXPORTER_OTLP_ENDPOINT: collector,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
      },
    }),
  );
  const worker = keep(service("worker.ts", [server.url, collector]));
  const shop = keep(service("shop.ts", [server.url, collector]));
  const traceId = await shop.line((line) => /^[0-9a-f]{32}$/.test(line));
  const shopExit = await shop.exited;
  if (shopExit.code !== 0) throw new PartError(`the shop failed: ${shopExit.stderr}`);
  worker.signal("SIGTERM");
  await worker.exited;
  const spans = await wholeTrace(zipkin, traceId);
  console.log(drawn(spans));
  const page = `${zipkin}/zipkin/traces/${traceId}`;
  if (values.picture === undefined) {
    console.log(`\nThe trace is at ${page}; end with Ctrl-C.`);
    await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
    return;
  }
  await takePicture(page, values.picture);
  console.log(`\nThe picture is in ${values.picture}.`);
}

function service(file: string, args: readonly string[]): Child {
  const node = ["--conditions=source", join(import.meta.dirname, file), ...args];
  return new Child(spawn(process.execPath, node, { stdio: ["ignore", "pipe", "pipe"] }));
}

/** Exporters send every few seconds. */
const traceMsMax = 60_000;

/** Resolves when all parts have sent their spans. */
async function wholeTrace(zipkin: string, traceId: string): Promise<readonly ZipkinSpan[]> {
  const late = AbortSignal.timeout(traceMsMax);
  for (;;) {
    const spans = await spansOf(zipkin, traceId);
    const names = new Set(spans.map(({ name }) => name.toLowerCase()));
    if (lastSpans.every((name) => names.has(name))) return spans;
    if (late.aborted) {
      const known = [...names].join(", ") || "none";
      throw new PartError(`spans are missing after ${traceMsMax / 1000} s; Zipkin has: ${known}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** The spans as a tree, with the moments at which they begin. */
function drawn(spans: readonly ZipkinSpan[]): string {
  const ids = new Set(spans.map(({ id }) => id));
  const startUs = Math.min(...spans.map(({ timestamp }) => timestamp));
  const lines: string[] = [];
  const draw = (parent: string | undefined, depth: number): void => {
    const children = spans.filter(({ parentId }) =>
      parent === undefined ? parentId === undefined || !ids.has(parentId) : parentId === parent,
    );
    for (const span of children.toSorted((a, b) => a.timestamp - b.timestamp)) {
      const at = `${Math.round((span.timestamp - startUs) / 1000)} ms`.padStart(8);
      const took = `${(span.duration / 1000).toFixed(1)} ms`.padStart(10);
      const name = `${"  ".repeat(depth)}${span.name}`.padEnd(42);
      const error = span.tags?.["error"] === undefined ? "" : "  error";
      lines.push(`${at} ${took}  ${name} ${span.localEndpoint?.serviceName ?? ""}${error}`);
      draw(span.id, depth + 1);
    }
  };
  draw(undefined, 0);
  return lines.join("\n");
}

async function takePicture(page: string, file: string): Promise<void> {
  const browser = await launchChromium();
  try {
    const viewport = { width: 1280, height: 740 };
    const tab = await browser.newPage({ viewport, deviceScaleFactor: 1 });
    await tab.goto(page, { waitUntil: "networkidle" });
    await tab.getByText("codeq.webhook.task_result").first().waitFor();
    // Its tags say why there was a second try.
    await tab.getByText("codeq.task.nack").first().click();
    await tab.getByText("codeq.reason").first().waitFor();
    await tab.getByText("codeq.reason").first().scrollIntoViewIfNeeded();
    await tab.screenshot({ path: file });
  } finally {
    await browser.close();
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof PartError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
