/** Writes the Grafana dashboard: `npm run gen`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { grafanaDashboard } from "./grafana-dashboard.ts";

const path = "deploy/grafana/codeq.json";
const target = join(import.meta.dirname, "..", path);
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, grafanaDashboard());
console.log(`wrote ${path}`);
