import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { apiReport, apiReportPath, compileLibraries, undocumented } from "./api-report.ts";

before(compileLibraries);

test("whatever the libraries export has a comment for those who see it in an editor", () => {
  assert.deepEqual(undocumented(), []);
});

test(`${apiReportPath} is what the libraries export; look at the change, then run npm run gen`, () => {
  const committed = readFileSync(join(import.meta.dirname, "..", apiReportPath), "utf8");
  const report = apiReport();
  assert.ok(report.includes("export declare function codeq(options?: ClientOptions): Client;"));
  assert.ok(report.includes("export declare function testServer("));
  assert.ok(report.includes("export declare function openTelemetry(): Tracing;"));
  assert.ok(report.includes("export declare function startRelay(options: RelayOptions): Relay;"));
  assert.equal(report, committed);
});
