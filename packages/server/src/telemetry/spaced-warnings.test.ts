import assert from "node:assert/strict";
import test from "node:test";
import { SimClock } from "@codeq/simulated";
import { createLogger } from "./logger.ts";
import { SpacedWarnings } from "./spaced-warnings.ts";

test("the same warning is written once in 10 seconds, with how many were left out", async () => {
  const lines: string[] = [];
  const clock = new SimClock();
  const write = (line: string) => void lines.push(line.slice(line.indexOf("WARN")));
  const logger = createLogger({ level: "warn", format: "text", write, nowMs: () => 0 });
  const warnings = new SpacedWarnings(logger, clock);
  for (let n = 0; n < 1000; n += 1) warnings.warn("slow", { n });
  warnings.warn("other", {});
  await clock.advance(9999);
  warnings.warn("slow", { n: 1 });
  await clock.advance(1);
  warnings.warn("slow", { n: 2 });
  await clock.advance(10_000);
  warnings.warn("slow", { n: 3 });
  const expected = ["slow n=0", "other", "slow n=2 leftOut=1000", "slow n=3"];
  assert.deepEqual(
    lines,
    expected.map((text) => `WARN  ${text}\n`),
  );
});
