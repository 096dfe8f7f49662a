/** How long to wait before another try: longer with every one, and different for every client. */
const firstMs = 100;
const longestMs = 5_000;

/** `tries` is 1 after the first one. */
export function pauseMs(tries: number, random: () => number): number {
  const most = Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(tries - 1, 0), 16));
  return most / 2 + (most / 2) * random();
}
