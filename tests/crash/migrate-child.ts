/** Changes the number of shards, as a process that can be killed: prints a line for every step. */
import { writeSync } from "node:fs";
import { systemClock } from "../../packages/server/src/clock.ts";
import { migrateShards } from "../../packages/server/src/start/migrate-shards.ts";
import { configOf } from "./directory-config.ts";

const [dataDir = "", to = ""] = process.argv.slice(2);
await migrateShards(Number(to), {
  config: configOf(dataDir),
  clock: systemClock,
  // At once, so that whoever reads it is not far behind.
  onStep: (what) => void writeSync(1, `${what}\n`),
});
process.exit(0);
