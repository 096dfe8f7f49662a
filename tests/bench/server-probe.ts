/**
 * Loaded into a server before its own code, with a channel to the benchmark: the word begin makes it
 * watch the heap, end makes it answer with what was used. Threads that the server starts are not
 * watched.
 */
import { isMainThread } from "node:worker_threads";
import { type HeapUse, watchHeap } from "./heap-use.ts";

if (isMainThread && process.send !== undefined) {
  let end: (() => HeapUse) | undefined;
  process.on("message", (word) => {
    if (word === "begin") end = watchHeap();
    else if (word === "end") process.send?.(end?.());
  });
}
