/**
 * The head of one (command, tenant, priority) in memory; the rest is on disk.
 *
 * Sequence numbers only grow, and every return to ready takes a new one. So the window always
 * continues behind what it has seen and never looks at the start of the index again, where the
 * deleted keys are.
 *
 *   taken | in the window, up to `coveredTo` | on disk only
 */
import type { TaskId } from "@codeq/queue";

const compactAt = 1024;

export class ReadyWindow {
  /** Every ready task up to this sequence number that was not taken is in the window. */
  coveredTo = 0;
  /** The highest sequence number that this bucket has seen. */
  #newest = 0;
  #seqs: number[] = [];
  #ids: TaskId[] = [];
  #head = 0;

  get size(): number {
    return this.#ids.length - this.#head;
  }

  /** The oldest task in the window; undefined when the window is empty. */
  get headSeq(): number | undefined {
    return this.#seqs[this.#head];
  }

  get headId(): TaskId | undefined {
    return this.#ids[this.#head];
  }

  /**
   * A task became ready. It enters the window when there is room and nothing older is left on disk;
   * otherwise a later refill finds it.
   */
  arrive(seq: number, id: TaskId, hasRoom: boolean): boolean {
    const isComplete = this.coveredTo === this.#newest;
    this.#newest = seq;
    if (!isComplete || !hasRoom) return false;
    this.coveredTo = seq;
    this.#push(seq, id);
    return true;
  }

  take(): { readonly seq: number; readonly id: TaskId } | undefined {
    const seq = this.#seqs[this.#head];
    const id = this.#ids[this.#head];
    if (seq === undefined || id === undefined) return undefined;
    this.#head += 1;
    if (this.#head >= compactAt && this.#head * 2 > this.#ids.length) {
      this.#seqs = this.#seqs.slice(this.#head);
      this.#ids = this.#ids.slice(this.#head);
      this.#head = 0;
    }
    return { seq, id };
  }

  /** Starts with nothing in memory and everything up to `newest` on disk. */
  recover(newest: number): void {
    this.#newest = newest;
  }

  /** Marks the point that a refill which starts now will have read up to when it reaches the end. */
  beginRefill(): number {
    return this.#newest;
  }

  /** What a scan behind `coveredTo` found; `reached` is how far it is known to be complete. */
  endRefill(
    found: readonly { readonly seq: number; readonly id: TaskId }[],
    reached: number,
  ): void {
    for (const { seq, id } of found) this.#push(seq, id);
    this.coveredTo = reached;
  }

  #push(seq: number, id: TaskId): void {
    this.#seqs.push(seq);
    this.#ids.push(id);
  }
}
