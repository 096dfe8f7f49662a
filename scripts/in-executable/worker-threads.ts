/** `node:worker_threads` in the executable: threads run parts of it instead of files. */
import { getAsset } from "node:sea";
import { Worker as NodeWorker, type WorkerOptions } from "node:worker_threads";
import { partOf } from "./parts.ts";

export * from "node:worker_threads";

export class Worker extends NodeWorker {
  constructor(path: string, options: WorkerOptions = {}) {
    const part = partOf(path);
    if (part === undefined) super(path, options);
    else super(getAsset("boot.js", "utf8"), { ...options, eval: true, argv: [part] });
  }
}
