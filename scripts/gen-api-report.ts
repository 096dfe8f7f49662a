/** Writes the page of the client's API: `npm run gen`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiReport, apiReportPath, compileClient } from "./api-report.ts";

compileClient();
writeFileSync(join(import.meta.dirname, "..", apiReportPath), apiReport());
console.log(`wrote ${apiReportPath}`);
