/** The page of the guide about browsers: its hook, bundled for a page of another site, in a real browser. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { codeq, task } from "@codeq/client";
import { build } from "esbuild";
import { launchChromium } from "../console/chromium.ts";
import { root, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { blocksOf } from "../guides/marks.ts";

const page = `
  import { h, render } from "preact";
  import { useRun } from "./use-run.ts";
  const { url, id, token } = Object.fromEntries(new URLSearchParams(location.search));
  const App = () => h("p", null, JSON.stringify(useRun(url, id, token)));
  render(h(App), document.body);
`;

async function bundled(directory: string): Promise<string> {
  for (const { file, text } of blocksOf("ts", "docs/guide/browser.md")) {
    if (file !== undefined) writeFileSync(join(directory, file), text);
  }
  writeFileSync(join(directory, "page.ts"), page);
  const { outputFiles } = await build({
    entryPoints: [join(directory, "page.ts")],
    bundle: true,
    write: false,
    format: "esm",
    platform: "browser",
    conditions: ["source"],
    nodePaths: [join(root, "node_modules")],
  });
  return outputFiles[0]?.text ?? "";
}

test("a page of another site shows progress and result with the token of one task", async (t) => {
  await using stack = new AsyncDisposableStack();
  const directory = temporaryDirectory();
  stack.defer(() => directory.dispose());
  const script = await bundled(directory.path);
  const server = await startServer({ dataDir: join(directory.path, "data") });
  stack.defer(() => server.kill());
  const site = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<body><script type="module" src="/page.js"></script>');
  });
  stack.defer(() => site.closeAllConnections());
  stack.defer(() => void site.close());
  await once(site.listen(0, "127.0.0.1"), "listening");
  const browser = await launchChromium();
  stack.defer(() => browser.close());
  const client = stack.use(codeq({ url: server.url, token: "dev-token" }));
  const report = task<{ month: string }, { pages: number }>("report");
  const goOn = Promise.withResolvers<void>();
  client.worker(
    report.handle(async (_input, ctx) => {
      ctx.progress(0.4, "page 4 of 10");
      await goOn.promise;
      return { pages: 10 };
    }),
  );
  const run = await client.enqueue(report, { month: "May" });
  const token = await run.publicToken({ for: "10m" });
  const query = new URLSearchParams({ url: server.url, id: run.id, token });
  const tab = await browser.newPage();
  tab.on("console", (message) => t.diagnostic(message.text()));
  const { port } = site.address() as AddressInfo;
  await tab.goto(`http://127.0.0.1:${port}/?${query}`);
  await tab.getByText('{"percent":40,"note":"page 4 of 10"}').waitFor();
  goOn.resolve();
  const ended = '{"percent":100,"note":"page 4 of 10","output":{"pages":10}}';
  await tab.getByText(ended).waitFor();
  const refused = await tab.evaluate(
    ({ url, token: bearer }) =>
      fetch(url, { headers: { authorization: `Bearer ${bearer}` } }).then(String, String),
    { url: `${server.url}/v1/codeq/tasks/${run.id}`, token },
  );
  assert.match(refused, /TypeError: Failed to fetch/);
});
