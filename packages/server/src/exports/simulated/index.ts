/** A simulated clock and random source for a server in process; a test controls both. Loads nothing else. */
export { SimClock, type SimClockOptions, settle } from "../../start/sim-clock.ts";
export { SimRandom } from "../../start/sim-random.ts";
