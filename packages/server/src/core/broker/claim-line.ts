/**
 * Claims that wait for work of one queue, or of a whole tenant, in order of arrival. A claim may be in
 * several lines. A claim that has ended is skipped when its turn comes, because removing it from the middle
 * would cost more.
 */
import type { Claim } from "./claim.ts";

/** So many may be there without being looked at. */
const tidyAt = 64;

export class ClaimLine {
  #claims: Claim[] = [];
  /** The ticket of each when it came: one that left and came again stands at the end. */
  #tickets: number[] = [];
  #first = 0;
  #size = 0;

  /** How many wait. */
  get size(): number {
    return this.#size;
  }

  add(claim: Claim): void {
    this.#claims.push(claim);
    this.#tickets.push(claim.ticket);
    this.#size += 1;
  }

  /** Puts one where its ticket belongs: it had left, and waits on. */
  addInOrder(claim: Claim): void {
    const at = this.#placeOf(claim.ticket);
    if (this.#claims[at] !== claim) {
      this.#claims.splice(at, 0, claim);
      this.#tickets.splice(at, 0, claim.ticket);
    }
    this.#first = Math.min(this.#first, at);
    this.#size += 1;
  }

  /** The first place whose ticket is not smaller. */
  #placeOf(ticket: number): number {
    let low = 0;
    let high = this.#tickets.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#tickets[middle] as number) < ticket) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** One of the claims waits no longer. */
  left(): void {
    this.#size -= 1;
    if (this.#size === 0) {
      this.#claims.length = 0;
      this.#tickets.length = 0;
      this.#first = 0;
    } else if (this.#claims.length > tidyAt && this.#claims.length > this.#size * 2) {
      this.#claims = this.waiting();
      this.#tickets = this.#claims.map(({ ticket }) => ticket);
      this.#first = 0;
    }
  }

  /** Who has waited longest. */
  first(): Claim | undefined {
    if (this.#size === 0) return undefined;
    for (; this.#first < this.#claims.length; this.#first++) {
      if (this.#isHere(this.#first)) return this.#claims[this.#first];
    }
    return undefined;
  }

  /** All of them, as they are now. */
  waiting(): Claim[] {
    return this.#claims.filter((_, at) => this.#isHere(at));
  }

  #isHere(at: number): boolean {
    const claim = this.#claims[at] as Claim;
    return claim.isWaiting && claim.ticket === this.#tickets[at];
  }
}
