/**
 * Notes that the nodes of a shared log send each other every few seconds, outside the log: how far their stores are
 * durable, whether their disks have room, the time of their clocks, and the id of their process. A note may be lost;
 * the next one replaces it.
 */
import type { EngineClock } from "../../engine-options.ts";

export interface NodeNotesParts {
  /** The id of this node. */
  readonly self: string;
  /** The ids of all nodes. */
  readonly nodes: readonly string[];
  readonly clock: EngineClock;
  /** An id of this process that no other process has. */
  readonly instance: number;
  /** Notes that are older than this are ignored. */
  readonly keptMs: number;
}

interface Note {
  readonly node: string;
  /** The slot up to which its store is durable. */
  readonly slot: number;
  /** The slot up to which it has read the log. */
  readonly read: number;
  /** Its disk has less room than it should. */
  readonly isFull: boolean;
  readonly nowMs: number;
  readonly instance: number;
}

/** Clocks that differ by more than this are taken to be wrong. */
const clockMsMax = 30_000;

export class NodeNotes {
  readonly #parts: NodeNotesParts;
  readonly #slots: Map<string, number> = new Map();
  readonly #read: Map<string, number> = new Map();
  /** When other nodes last reported that their disks have room. */
  readonly #roomy: Map<string, number> = new Map();
  /** How far the clocks of other nodes are ahead of this one, and when that was heard. */
  readonly #clocks: Map<string, { readonly aheadMs: number; readonly heardMs: number }> = new Map();
  #twinMs = Number.NEGATIVE_INFINITY;

  constructor(parts: NodeNotesParts) {
    this.#parts = parts;
  }

  /** The note of this node. */
  write(state: Pick<Note, "slot" | "read" | "isFull">): string {
    const { self, clock, instance } = this.#parts;
    this.#slots.set(self, state.slot);
    const note: Note = { node: self, ...state, nowMs: clock.nowMs(), instance };
    return JSON.stringify(note);
  }

  read(text: string): void {
    const { self, clock, instance } = this.#parts;
    const note = noteIn(text);
    if (note === undefined) return;
    const heardMs = clock.monotonicMs();
    if (note.node !== self) {
      this.#slots.set(note.node, note.slot);
      this.#read.set(note.node, note.read);
      if (note.isFull) this.#roomy.delete(note.node);
      else this.#roomy.set(note.node, heardMs);
      this.#clocks.set(note.node, { aheadMs: note.nowMs - clock.nowMs(), heardMs });
    } else if (note.instance !== instance) this.#twinMs = heardMs;
  }

  /** The slot up to which the stores of a majority of the nodes are durable. */
  get majoritySlot(): number {
    const { nodes } = this.#parts;
    const slots = nodes.map((node) => this.#slots.get(node) ?? 0).sort((a, b) => b - a);
    return slots[Math.floor(nodes.length / 2)] ?? 0;
  }

  /** The most advanced other node that has reported since then that its disk has room. */
  nodeWithSpace(sinceMs: number): string | undefined {
    const [first] = [...this.#roomy]
      .filter(([, heardMs]) => heardMs > sinceMs && this.#isNew(heardMs))
      .map(([node]) => ({ node, slot: this.#slots.get(node) ?? 0 }))
      .sort((one, other) => other.slot - one.slot);
    return first?.node;
  }

  /** Whether another node follows, has read the log up to this slot, and has room and the right time. */
  isWell(node: string, slot: number): boolean {
    const heardMs = this.#roomy.get(node) ?? Number.NEGATIVE_INFINITY;
    const { aheadMs = 0 } = this.#clocks.get(node) ?? {};
    const isRight = Math.abs(aheadMs) <= clockMsMax;
    return this.#isNew(heardMs) && (this.#read.get(node) ?? 0) >= slot && isRight;
  }

  /** Why this node should not lead: its clock differs from the clocks of the majority. */
  get clockProblem(): string | undefined {
    const { nodes } = this.#parts;
    const differing = [...this.#clocks]
      .filter(([, { heardMs }]) => this.#isNew(heardMs))
      .filter(([, { aheadMs }]) => Math.abs(aheadMs) > clockMsMax);
    if (differing.length <= nodes.length / 2) return undefined;
    const [[, { aheadMs }] = ["", { aheadMs: 0 }]] = differing;
    const seconds = Math.round(Math.abs(aheadMs) / 1000);
    const how = aheadMs > 0 ? "behind" : "ahead of";
    const others = differing.map(([node]) => node).sort();
    return (
      `the clock of this node is ${seconds} s ${how} the clocks of ${others.join(" and ")}. ` +
      "The node leads nothing until that is corrected: set its clock, and keep it right with NTP."
    );
  }

  /** A problem that an operator should look at. */
  get problem(): string | undefined {
    const { self } = this.#parts;
    if (!this.#isNew(this.#twinMs)) return this.clockProblem;
    return `another server runs with nodeId ${self}, too. Give every server an id of its own.`;
  }

  #isNew(heardMs: number): boolean {
    return this.#parts.clock.monotonicMs() - heardMs < this.#parts.keptMs;
  }
}

/** Undefined for a text that is not a note: every client of the log servers can send any text. */
function noteIn(text: string): Note | undefined {
  try {
    const note = JSON.parse(text) as Partial<Note> | null;
    return typeof note?.node === "string" && typeof note.slot === "number"
      ? (note as Note)
      : undefined;
  } catch {
    return undefined;
  }
}
