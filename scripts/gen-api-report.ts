/** Writes the page of the API of the libraries: `npm run gen`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiReport, apiReportPath, compileLibraries } from "./api-report.ts";

compileLibraries();
writeFileSync(join(import.meta.dirname, "..", apiReportPath), apiReport());
console.log(`wrote ${apiReportPath}`);
