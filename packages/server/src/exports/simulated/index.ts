/** Time and chance for a server in process: they move and fall as a test decides. Loads nothing else. */
export { SimClock, type SimClockOptions, settle } from "../../start/sim-clock.ts";
export { SimRandom } from "../../start/sim-random.ts";
