/**
 * What the clients of a campaign were told, and what must be true of it in the end: every task that was
 * acknowledged has ended, once, with what its worker said; no lease was handed out twice; and a queue with
 * one producer and one worker kept its order.
 */
export interface Told {
  /** The number that the producer gave the task. */
  readonly number: number;
  readonly queue: string;
  readonly id: string;
  /** Tokens of the leases that workers were given. */
  readonly leases: number[];
  /** Tokens of the leases under which a result was acknowledged. */
  readonly completed: Set<number>;
}

/** A task as a node shows it when everything is over. */
export interface Shown {
  readonly status: string;
  /** The token of the lease under which the result was made, as the result says. */
  readonly by: number | undefined;
}

export class Ledger {
  readonly tasks: Map<string, Told> = new Map();
  readonly problems: string[] = [];
  /** The last number of each ordered queue that was handed out for the first time. */
  readonly #lastFirst: Map<string, number> = new Map();
  readonly #ids: Map<string, string> = new Map();
  /** How many tasks of each queue have no acknowledged result. */
  readonly #open: Map<string, number> = new Map();

  /** A task was acknowledged, perhaps for the second time. */
  created(queue: string, number: number, id: string): void {
    const key = `${queue}/${number}`;
    const before = this.#ids.get(key);
    if (before !== undefined && before !== id) {
      this.#problem(`${key} was created twice, as ${before} and as ${id}`);
    }
    this.#ids.set(key, id);
    this.#told(queue, number, id);
  }

  /** A worker was given a task. `isOrdered` when its queue has one worker. */
  claimed(task: {
    readonly queue: string;
    readonly number: number;
    readonly id: string;
    readonly lease: number;
    readonly isOrdered: boolean;
  }): void {
    const { queue, number, id, lease } = task;
    const told = this.#told(queue, number, id);
    if (told.leases.includes(lease)) this.#problem(`${id} was given out twice with lease ${lease}`);
    told.leases.push(lease);
    if (!task.isOrdered || lease !== 1) return;
    const last = this.#lastFirst.get(queue) ?? -1;
    if (number < last) this.#problem(`${queue} gave out number ${number} after ${last}`);
    this.#lastFirst.set(queue, Math.max(last, number));
  }

  /** A result was acknowledged. */
  completed(id: string, lease: number): void {
    const told = this.tasks.get(id);
    if (told === undefined) return;
    if (told.completed.size === 0) this.#open.set(told.queue, this.openOf(told.queue) - 1);
    told.completed.add(lease);
    if (told.completed.size > 1) {
      this.#problem(`${id} was completed under the leases ${[...told.completed].join(" and ")}`);
    }
  }

  /** Compares what was told with what a node shows in the end. */
  compare(id: string, shown: Shown | undefined, node: string): void {
    const told = this.tasks.get(id) as Told;
    const what = `${told.queue}/${told.number} (${id})`;
    if (shown === undefined) {
      this.#problem(`${what} was acknowledged, and ${node} does not have it`);
      return;
    }
    if (shown.status !== "COMPLETED") {
      this.#problem(`${what} was acknowledged, and is ${shown.status} on ${node} in the end`);
      return;
    }
    const [by] = told.completed;
    if (by !== undefined && by !== shown.by) {
      this.#problem(`${what} was completed under lease ${by}, and ${node} says ${shown.by}`);
    }
  }

  openOf(queue: string): number {
    return this.#open.get(queue) ?? 0;
  }

  get completions(): number {
    return [...this.tasks.values()].filter(({ completed }) => completed.size > 0).length;
  }

  #told(queue: string, number: number, id: string): Told {
    let told = this.tasks.get(id);
    if (told === undefined) {
      told = { queue, number, id, leases: [], completed: new Set() };
      this.tasks.set(id, told);
      this.#open.set(queue, this.openOf(queue) + 1);
    }
    return told;
  }

  #problem(text: string): void {
    this.problems.push(text);
  }
}
