/**
 * The ready tasks of all lanes of a shard that are in memory: sequence number, cost and id in 32 bytes each, as linked
 * lists in shared arrays. A million lanes with a few tasks each need no arrays of their own.
 */
import assert from "node:assert/strict";
import type { TaskId } from "@codeq/queue";
import { idAt, idWords, packId } from "../queues/ready-window.ts";

const firstEntries = 1024;
/** Ids that are kept as text, because most tasks are claimed soon; a power of two. */
const textsMax = 4096;
/** No entry. */
export const noEntry = -1;

export class LaneEntries {
  #seqs: Float64Array = new Float64Array(firstEntries);
  #ids: Uint32Array = new Uint32Array(firstEntries * idWords);
  #costs: Uint32Array = new Uint32Array(firstEntries);
  #nexts: Int32Array = new Int32Array(firstEntries);
  /** The id of an entry is at its number modulo `textsMax`, until another entry takes the place. */
  readonly #texts: TaskId[] = [];
  readonly #textOf: Int32Array = new Int32Array(textsMax).fill(noEntry);
  /** Entries that were used and are free now, as a list. */
  #free = noEntry;
  #used = 0;
  size = 0;

  add(seq: number, id: TaskId, cost: number): number {
    const at = this.#take();
    this.#seqs[at] = seq;
    this.#costs[at] = cost;
    this.#nexts[at] = noEntry;
    const place = at & (textsMax - 1);
    this.#pack(place);
    this.#texts[place] = id;
    this.#textOf[place] = at;
    this.size += 1;
    return at;
  }

  /** Makes room for another text. */
  #pack(place: number): void {
    const at = this.#textOf[place] as number;
    if (at === noEntry) return;
    const id = this.#texts[place] as TaskId;
    const packed = packId(id);
    assert(packed !== undefined, `${id} is not a UUID in canonical form`);
    this.#ids.set(packed, at * idWords);
  }

  #take(): number {
    const at = this.#free;
    if (at !== noEntry) {
      this.#free = this.next(at);
      return at;
    }
    if (this.#used === this.#seqs.length) this.#grow();
    this.#used += 1;
    return this.#used - 1;
  }

  #grow(): void {
    const entries = this.#used * 2;
    const [seqs, ids, costs, nexts] = [this.#seqs, this.#ids, this.#costs, this.#nexts];
    this.#seqs = new Float64Array(entries);
    this.#ids = new Uint32Array(entries * idWords);
    this.#costs = new Uint32Array(entries);
    this.#nexts = new Int32Array(entries);
    this.#seqs.set(seqs);
    this.#ids.set(ids);
    this.#costs.set(costs);
    this.#nexts.set(nexts);
  }

  free(at: number): void {
    const place = at & (textsMax - 1);
    if (this.#textOf[place] === at) this.#textOf[place] = noEntry;
    this.#nexts[at] = this.#free;
    this.#free = at;
    this.size -= 1;
  }

  seq(at: number): number {
    return this.#seqs[at] as number;
  }

  cost(at: number): number {
    return this.#costs[at] as number;
  }

  id(at: number): TaskId {
    const place = at & (textsMax - 1);
    if (this.#textOf[place] === at) return this.#texts[place] as TaskId;
    return idAt(this.#ids, at * idWords);
  }

  next(at: number): number {
    return this.#nexts[at] as number;
  }

  link(at: number, next: number): void {
    this.#nexts[at] = next;
  }
}
