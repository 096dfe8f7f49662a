import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { apiReport, apiReportPath, compileClient, undocumented } from "./api-report.ts";

before(compileClient);

test("whatever the client exports has a comment for those who see it in an editor", () => {
  assert.deepEqual(undocumented(), []);
});

test(`${apiReportPath} is what the client exports; look at the change, then run npm run gen`, () => {
  const committed = readFileSync(join(import.meta.dirname, "..", apiReportPath), "utf8");
  const report = apiReport();
  assert.ok(report.includes("export declare function codeq(options?: ClientOptions): Client;"));
  assert.ok(report.includes("export declare function testServer("));
  assert.ok(report.includes("export declare function openTelemetry(): Tracing;"));
  assert.equal(report, committed);
});
