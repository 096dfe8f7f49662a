/**
 * The queues of one tenant that have tasks to claim, in the order in which a claim for any queue takes from them:
 * highest priority first, then the oldest task. The order is made for the first such claim. A queue that changes is
 * only noted; the next claim for any queue sorts it in. So claims that name their queues pay next to nothing, and a
 * claim for any queue costs O(log n) for each queue that changed.
 */
import { limits } from "@codeq/protocol";
import { type HeapItem, IndexedHeap } from "../indexed-heap.ts";
import type { QueueState } from "./queue-state.ts";

/** Sequence numbers are smaller than this; all priorities times this are exact numbers. */
const seqEnd = 2 ** 49;
/** The order is given up when so many more queues are noted than there are. */
const notedSpare = 1024;

/** A queue in the order; `dueMs` is its rank. */
class RankedQueue implements HeapItem {
  readonly queue: QueueState;
  dueMs = 0;
  heapIndex = -1;
  isNoted = false;

  constructor(queue: QueueState) {
    this.queue = queue;
  }
}

export type { RankedQueue };

export class ReadyOrder {
  readonly #heap: IndexedHeap<RankedQueue> = new IndexedHeap();
  #noted: RankedQueue[] = [];

  constructor(queues: Iterable<QueueState>) {
    for (const queue of queues) {
      queue.entry = undefined;
      this.note(queue);
    }
  }

  /** Whether too many queues were noted since the last claim: making a new order is cheaper. */
  isOutdated(queues: number): boolean {
    return this.#noted.length > queues + notedSpare;
  }

  /** The queue may have got another place in the order. */
  note(queue: QueueState): void {
    queue.entry ??= new RankedQueue(queue);
    const { entry } = queue;
    if (entry.isNoted) return;
    entry.isNoted = true;
    this.#noted.push(entry);
  }

  /** The queue whose oldest task comes first; its window may have to be read. */
  first(): QueueState | undefined {
    if (this.#noted.length > 0) this.#sortIn();
    return this.#heap.peek()?.queue;
  }

  /** Up to so many of the queues that come first and whose windows have to be read to know their order. */
  unread(max: number): readonly QueueState[] {
    const ranked = this.#heap.values();
    const rank = ranked[0]?.dueMs;
    const found: QueueState[] = [];
    const open = [0];
    for (let at = open.pop(); at !== undefined && found.length < max; at = open.pop()) {
      const entry = ranked[at];
      if (entry === undefined || entry.dueMs !== rank) continue;
      found.push(entry.queue);
      open.push(at * 2 + 1, at * 2 + 2);
    }
    return found;
  }

  #sortIn(): void {
    const noted = this.#noted;
    this.#noted = [];
    for (const entry of noted) {
      entry.isNoted = false;
      const rank = rankOf(entry.queue);
      if (rank === undefined) this.#heap.remove(entry);
      else if (entry.heapIndex < 0) {
        entry.dueMs = rank;
        this.#heap.push(entry);
      } else if (entry.dueMs !== rank) {
        entry.dueMs = rank;
        this.#heap.update(entry);
      }
    }
  }
}

/** Smaller ranks come first; undefined without tasks to claim. */
function rankOf(queue: QueueState): number | undefined {
  const { topPriority } = queue;
  if (topPriority < 0) return undefined;
  // Tasks on disk may be older than all tasks in memory.
  const seq = queue.headSeq(topPriority) ?? 0;
  return (limits.priorityMax - topPriority) * seqEnd + seq;
}
