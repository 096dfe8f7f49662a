/** Where webhooks go. It answers well, badly, late or not at all, and remembers what it was sent. */
import type { Result, Task, TaskId } from "@codeq/queue";
import type { SimClock, SimRandom } from "@codeq/simulated";

const badAnswers = [500, 503, 429, 408, undefined];

export class WebhookTarget {
  /** Chance of an answer that asks for another try. */
  badness = 0;
  /** Chance of an answer that ends it. */
  refusals = 0;
  readonly delivered: Set<TaskId> = new Set();
  /** Those that the target refused for good; the server owes them nothing more. */
  readonly refused: Set<TaskId> = new Set();
  onPost: (task: Task, result: Result) => void = () => {};
  readonly #clock: SimClock;
  readonly #random: SimRandom;

  constructor(clock: SimClock, random: SimRandom) {
    this.#clock = clock;
    this.#random = random;
  }

  async post(task: Task, result: Result): Promise<number | undefined> {
    this.onPost(task, result);
    const status = this.#answer();
    const ms = this.#random.next() < 0.2 ? this.#random.next() * 2000 : this.#random.next() * 5;
    // Half of the time the target has acted before it answers, half of the time after.
    const isEarly = this.#random.next() < 0.5;
    if (isEarly) this.#note(task.id, status);
    await new Promise<void>((resolve) => {
      this.#clock.after(ms, resolve);
    });
    if (!isEarly) this.#note(task.id, status);
    return status;
  }

  #answer(): number | undefined {
    const draw = this.#random.next();
    if (draw < this.badness) return this.#random.pick(badAnswers);
    return draw < this.badness + this.refusals ? 400 : 200;
  }

  #note(id: TaskId, status: number | undefined): void {
    if (status === 200) this.delivered.add(id);
    if (status === 400) this.refused.add(id);
  }
}
