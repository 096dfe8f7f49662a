import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { apiReport, apiReportPath } from "./api-report.ts";

test(`${apiReportPath} is what the client exports; look at the change, then run npm run gen`, () => {
  const committed = readFileSync(join(import.meta.dirname, "..", apiReportPath), "utf8");
  const report = apiReport();
  assert.ok(report.includes("export declare function codeq(options?: ClientOptions): Client;"));
  assert.ok(report.includes("export declare function testServer("));
  assert.ok(report.includes("export declare function openTelemetry(): Tracing;"));
  assert.equal(report, committed);
});
