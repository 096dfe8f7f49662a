/**
 * Records that many changes of one group replace, such as the counts of a batch. They are encoded and written once,
 * when the group takes no more changes, with the value after the last change.
 *
 * A write is added after its commit, in the same event loop turn: a group that closes in between does not contain the
 * changes of the commit, and so must not contain the write either.
 */
import { type Op, opKinds } from "@codeq/engine";

const noOps: readonly Op[] = [];

/** Replaces a record by a text that is made when it is needed. */
export class LateWrite implements Op {
  readonly kind: typeof opKinds.put = opKinds.put;
  readonly key: string;
  readonly #encode: () => string;

  constructor(key: string, encode: () => string) {
    this.key = key;
    this.#encode = encode;
  }

  get value(): string {
    return this.#encode();
  }
}

export class LateWrites {
  readonly #writes: Map<string, LateWrite> = new Map();

  /** What has to be written now. */
  static withoutLate(ops: readonly Op[]): readonly Op[] {
    if (!ops.some(isLate)) return ops;
    return ops.length === 1 ? noOps : ops.filter((op) => !isLate(op));
  }

  /** Follows what was committed: a later write of a record replaces an earlier one. */
  committed(ops: readonly Op[]): void {
    for (const op of ops) {
      if (op instanceof LateWrite) this.#writes.set(op.key, op);
      else if (this.#writes.size > 0) this.#writes.delete(op.key);
    }
  }

  /** The text that a record is about to get. */
  textOf(key: string): string | undefined {
    return this.#writes.get(key)?.value;
  }

  /** All of them, once. */
  take(): readonly Op[] {
    if (this.#writes.size === 0) return noOps;
    const ops = [...this.#writes.values()];
    this.#writes.clear();
    return ops;
  }

  /** After a full disk undid changes; the store has the right records. */
  forgetAll(): void {
    this.#writes.clear();
  }
}

function isLate(op: Op): boolean {
  return op instanceof LateWrite;
}
