/** Passes on the pieces of a body, and throws when none arrives for too long. */
import type { Clock } from "../../core/clock.ts";

const idleMsMax = 30_000;

export class IdleError extends Error {
  constructor() {
    super(`no data arrived for ${idleMsMax / 1000} seconds`);
  }
}

export async function* limitIdle(
  content: AsyncIterable<Uint8Array>,
  clock: Clock,
): AsyncGenerator<Uint8Array> {
  const pieces = content[Symbol.asyncIterator]();
  for (;;) {
    const next = await inTime(pieces.next(), clock);
    if (next.done === true) return;
    yield next.value;
  }
}

function inTime<T>(promise: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(idleMsMax, () => reject(new IdleError()));
    promise.finally(cancel).then(resolve, reject);
  });
}
