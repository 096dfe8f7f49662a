/**
 * Does a task. It may run more than once, also twice at the same time: a worker can be cut off without
 * knowing it. That does no harm, because the same input gives the same file.
 */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { type Handler, Permanent } from "@codeq/client";
import { imagePath, writeWhole } from "./files.ts";
import type { Job, Scaled } from "./scale-thread.ts";
import { thumbnail } from "./tasks.ts";

export function makeThumbnail(directory: string): Handler {
  return thumbnail.handle(async ({ image, width }, { id, fencingToken, signal }) => {
    const png = await readFile(imagePath(directory, image), { signal });
    const scaled = await inThread({ png, width }, signal);
    if ("problem" in scaled) throw new Permanent(scaled.problem);
    const file = `${image}-${width}.png`;
    await writeWhole(join(directory, file), scaled.png, `${id}-${fencingToken}`);
    return { file, width: scaled.width, height: scaled.height };
  });
}

/** In the main thread, long computations would keep the worker from extending its leases. */
async function inThread(job: Job, signal: AbortSignal): Promise<Scaled> {
  signal.throwIfAborted();
  const thread = new Worker(new URL("./scale-thread.ts", import.meta.url), { workerData: job });
  try {
    const [scaled] = (await once(thread, "message", { signal })) as [Scaled];
    return scaled;
  } finally {
    await thread.terminate();
  }
}
