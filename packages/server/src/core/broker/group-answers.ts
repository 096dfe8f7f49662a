/**
 * What happens when a group of changes is durable: observers get the changes in the order of the decisions,
 * then the callers are answered. When the group fails, only the callers hear of it.
 */
import type { CommitWaiter, FaultError } from "@codeq/engine";
import type { Change } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { Waiter } from "./verbs.ts";

/** Called with every durable change, once. */
export type Observe = (change: Change) => void;

/** Called with each durable group, and how long it took from its first decision until it was durable. */
export type ObserveGroup = (changes: readonly Change[], ms: number) => void;

interface Observers {
  readonly observe: Observe;
  readonly observeGroup: ObserveGroup | undefined;
  readonly clock: Clock;
}

export class GroupAnswers implements CommitWaiter {
  readonly #observers: Observers;
  readonly #sinceMs: number;
  readonly #changes: Change[] = [];
  // Three arrays instead of objects, because all entries live until the disk has answered.
  readonly #waiters: Waiter<unknown>[] = [];
  readonly #answers: unknown[] = [];
  readonly #items: number[] = [];

  constructor(observers: Observers) {
    this.#observers = observers;
    this.#sinceMs = observers.clock.monotonicMs();
  }

  add(change: Change): void {
    this.#changes.push(change);
  }

  answer<Answer>(waiter: Waiter<Answer>, answer: Answer, item: number): void {
    this.#waiters.push(waiter as Waiter<unknown>);
    this.#answers.push(answer);
    this.#items.push(item);
  }

  durable(): void {
    const bugs: unknown[] = [];
    const { observe, observeGroup, clock } = this.#observers;
    observeGroup?.(this.#changes, clock.monotonicMs() - this.#sinceMs);
    for (let at = 0; at < this.#changes.length; at++) {
      try {
        observe(this.#changes[at] as Change);
      } catch (error) {
        bugs.push(error);
      }
    }
    for (let at = 0; at < this.#waiters.length; at++) {
      try {
        this.#waiters[at]?.durable(this.#answers[at], this.#items[at] as number);
      } catch (error) {
        bugs.push(error);
      }
    }
    // Thrown after all others were notified, so that a bug of one caller does not affect the others.
    if (bugs.length > 0) throw bugs[0];
  }

  refused(fault: FaultError): void {
    const bugs: unknown[] = [];
    for (let at = 0; at < this.#waiters.length; at++) {
      try {
        this.#waiters[at]?.refused(fault, this.#items[at] as number);
      } catch (error) {
        bugs.push(error);
      }
    }
    if (bugs.length > 0) throw bugs[0];
  }
}
