import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** What the process holds after a collection of garbage; buffers count as well. */
export function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
