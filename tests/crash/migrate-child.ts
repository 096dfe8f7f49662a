/**
 * Changes the number of shards, as a process that can be killed: prints a line after every step, and goes
 * on when it is given a byte.
 */
import { readSync, writeSync } from "node:fs";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { migrateShards } from "../../packages/server/src/start/shards/migrate-shards.ts";
import { configOf, fewTasksSegmentBytes } from "./directory-config.ts";

const [dataDir = "", to = ""] = process.argv.slice(2);
await migrateShards(Number(to), {
  config: configOf(dataDir),
  clock: systemClock,
  segmentBytes: fewTasksSegmentBytes,
  // Whoever kills it may be slow, and is never more than a step behind.
  onStep: (what) => {
    writeSync(1, `${what}\n`);
    readSync(0, Buffer.alloc(1));
  },
});
process.exit(0);
