/**
 * Claims that wait for work of one queue, or of a whole tenant, in order of arrival. A claim may be in
 * several lists. A claim that has ended is skipped when its turn comes, because removing it from the middle
 * would cost more.
 */
import type { Claim } from "./claim.ts";

/** A list of so many entries is kept as it is; a longer one is cleaned up when most of its claims have left. */
const cleanUpAt = 64;

/** Shared by lists that never had a claim. */
const noClaims: Claim[] = [];
const noTickets: number[] = [];

export class WaitList {
  #claims = noClaims;
  /** The ticket of each claim when it came: a claim that left and came again has a newer one. */
  #tickets = noTickets;
  #first = 0;
  #size = 0;

  /** How many claims wait. */
  get size(): number {
    return this.#size;
  }

  add(claim: Claim): void {
    this.#begin();
    this.#claims.push(claim);
    this.#tickets.push(claim.ticket);
    this.#size += 1;
  }

  /** Puts a claim that had left back where its ticket belongs. */
  addInOrder(claim: Claim): void {
    this.#begin();
    const at = this.#positionOf(claim.ticket);
    if (this.#claims[at] !== claim) {
      this.#claims.splice(at, 0, claim);
      this.#tickets.splice(at, 0, claim.ticket);
    }
    this.#first = Math.min(this.#first, at);
    this.#size += 1;
  }

  #begin(): void {
    if (this.#claims !== noClaims) return;
    this.#claims = [];
    this.#tickets = [];
  }

  /** The first position whose ticket is not smaller. */
  #positionOf(ticket: number): number {
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
    } else if (this.#claims.length > cleanUpAt && this.#claims.length > this.#size * 2) {
      this.#claims = this.waiting();
      this.#tickets = this.#claims.map(({ ticket }) => ticket);
      this.#first = 0;
    }
  }

  /** The claim that has waited longest. */
  first(): Claim | undefined {
    if (this.#size === 0) return undefined;
    for (; this.#first < this.#claims.length; this.#first++) {
      if (this.#isHere(this.#first)) return this.#claims[this.#first];
    }
    return undefined;
  }

  /** All claims that wait now. */
  waiting(): Claim[] {
    return this.#claims.filter((_, at) => this.#isHere(at));
  }

  #isHere(at: number): boolean {
    const claim = this.#claims[at] as Claim;
    return claim.isWaiting && claim.ticket === this.#tickets[at];
  }
}
