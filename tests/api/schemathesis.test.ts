/**
 * Judges from outside: a validator of OpenAPI documents, and a tester that makes requests from the
 * document. The server must not fail, and must not answer what the document does not say.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { type Program, pythonTools, runPython } from "./python-tools.ts";

/** Of each operation, beside the some 3000 cases that follow from the document. */
const examples = campaignLength({ short: "3", long: "20" });
const checks = [
  "not_a_server_error",
  "status_code_conformance",
  "content_type_conformance",
  "response_headers_conformance",
  "response_schema_conformance",
];

/** Nobody waits for a task in a test. */
function withoutWaiting(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutWaiting);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, each]) => [
    name,
    name === "waitSeconds" ? { const: 0 } : withoutWaiting(each),
  ]);
  const object = Object.fromEntries(entries);
  return object.name === "waitSeconds" ? { ...object, schema: { const: 0 } } : object;
}

test("the document is valid, and the server answers only what it says", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const tools = await pythonTools();
  if ("missing" in tools) {
    t.skip(`${tools.missing}; run npm run schemathesis where it is`);
    return;
  }
  const run = (name: Program, ...args: string[]): Promise<string> =>
    runPython({ path: tools.path, name }, args, directory.path);
  const server = await startServer({ dataDir: join(directory.path, "data") });
  t.after(() => server.kill());
  const document = await (await fetch(`${server.url}/openapi.json`)).json();
  const path = (name: string): string => join(directory.path, name);
  writeFileSync(path("openapi.json"), JSON.stringify(document));
  writeFileSync(path("asked.json"), JSON.stringify(withoutWaiting(document)));
  assert.match(await run("openapi-spec-validator", "openapi.json"), /OK/);
  const report = await run(
    "schemathesis",
    ...["run", "asked.json", "--url", server.url, "--checks", checks.join()],
    ...["--header", "Authorization: Bearer dev-token", "--phases", "coverage,fuzzing"],
    // A feed has no end.
    ...["--exclude-operation-id", "watchEvents", "--exclude-operation-id", "watchTask"],
    ...["--max-examples", examples, "--seed", "1"],
    ...["--request-timeout", "30", "--warnings", "off", "--no-color"],
  );
  assert.match(report, /No issues found/);
});
