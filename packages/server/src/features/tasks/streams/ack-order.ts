/**
 * Sends the acknowledgements for one task in the order of its events. Most are ready in that order anyway,
 * because commits become durable in order; a refusal, which waits for no commit, is delayed while an earlier
 * event of the same task has no answer.
 *
 * An event is open from `begin` until its acknowledgements are sent. Usually the oldest open event is the
 * one that is ready, and nothing is compared.
 */

interface Named {
  readonly taskId: string;
}

/** Larger batches use a set instead of a scan. */
const walkedMax = 8;

/** The acknowledgements of one event. */
export abstract class OrderedAcks {
  abstract readonly acks: readonly Named[];
  /** The neighbours among the open events, and the events that wait for this one; set by AckOrder only. */
  previous: OrderedAcks | undefined;
  next: OrderedAcks | undefined;
  behind: OrderedAcks[] | undefined;
  #ids: ReadonlySet<string> | undefined;

  abstract send(): void;

  sharesTaskWith(other: OrderedAcks): boolean {
    if (this.acks.length > other.acks.length) return other.sharesTaskWith(this);
    return this.acks.some(({ taskId }) => other.names(taskId));
  }

  names(taskId: string): boolean {
    const { acks } = this;
    if (acks.length <= walkedMax) return acks.some((ack) => ack.taskId === taskId);
    this.#ids ??= new Set(acks.map((ack) => ack.taskId));
    return this.#ids.has(taskId);
  }
}

export class AckOrder {
  #oldest: OrderedAcks | undefined;
  #newest: OrderedAcks | undefined;

  /** Adds the next event of the stream. */
  begin(acks: OrderedAcks): void {
    acks.previous = this.#newest;
    if (this.#newest === undefined) this.#oldest = acks;
    else this.#newest.next = acks;
    this.#newest = acks;
  }

  /** All answers of the event are known: sends them now, or right after the earlier event of the same task. */
  ready(acks: OrderedAcks): void {
    const earlier = this.#earlierOf(acks);
    if (earlier !== undefined) {
      earlier.behind ??= [];
      earlier.behind.push(acks);
      return;
    }
    this.#remove(acks);
    acks.send();
    for (const each of acks.behind ?? []) this.ready(each);
  }

  #earlierOf(acks: OrderedAcks): OrderedAcks | undefined {
    for (let each = this.#oldest; each !== undefined && each !== acks; each = each.next) {
      if (each.sharesTaskWith(acks)) return each;
    }
    return undefined;
  }

  #remove(acks: OrderedAcks): void {
    const { previous, next } = acks;
    if (previous === undefined) this.#oldest = next;
    else previous.next = next;
    if (next === undefined) this.#newest = previous;
    else next.previous = previous;
    acks.previous = undefined;
    acks.next = undefined;
  }
}
