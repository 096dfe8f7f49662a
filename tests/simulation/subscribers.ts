/** Those who are told that there is work. They answer well, badly, late or not at all. */
import type { SimClock, SimRandom } from "@codeq/simulated";
import type { AvailableWork } from "../../packages/server/src/features/subscriptions/notify-subscribers.ts";

const badAnswers = [500, 429, undefined];

export class Subscribers {
  /** Chance of an answer that is none. */
  badness = 0;
  onTold: (work: AvailableWork) => void = () => {};
  readonly #clock: SimClock;
  readonly #random: SimRandom;

  constructor(clock: SimClock, random: SimRandom) {
    this.#clock = clock;
    this.#random = random;
  }

  async notify(work: AvailableWork): Promise<number | undefined> {
    this.onTold(work);
    const isBad = this.#random.next() < this.badness;
    const status = isBad ? this.#random.pick(badAnswers) : 204;
    const ms = this.#random.next() * (this.#random.next() < 0.1 ? 2000 : 5);
    await new Promise<void>((resolve) => {
      this.#clock.after(ms, resolve);
    });
    return status;
  }
}
