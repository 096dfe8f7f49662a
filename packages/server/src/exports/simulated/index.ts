/** A simulated clock and random source for a server in process; a test controls both. Loads nothing else. */
export { SimClock, type SimClockOptions, settle } from "./sim-clock.ts";
export { SimRandom } from "./sim-random.ts";
