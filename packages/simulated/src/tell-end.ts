/** Calls back at the end of work that is a promise, for disks that are made of those. */
import type { DiskDone } from "@codeq/engine";

export function tellEnd(work: Promise<void>, done: DiskDone): void {
  work.then(
    () => done(null),
    (error: Error) => done(error),
  );
}
