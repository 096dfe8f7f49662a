/** Loaded into nodes: their wall clock is as far ahead as a file says. */
import { readFileSync } from "node:fs";

const path = process.env["CHAOS_CLOCK_FILE"] ?? "";
const lookEveryMs = 100;
const now = Date.now.bind(Date);
let aheadMs = 0;

function look(): void {
  try {
    aheadMs = Number(readFileSync(path, "utf8")) || 0;
  } catch {
    aheadMs = 0;
  }
}

look();
setInterval(look, lookEveryMs).unref();
Date.now = () => now() + aheadMs;
