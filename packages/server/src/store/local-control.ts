/** The control store of a server alone: its own store, of which nobody else writes anything. */
import { type EngineState, opKinds } from "@codeq/engine";
import type { ControlRecords } from "./control-records.ts";
import { type ControlListener, type ControlStore, tell } from "./control-store.ts";
import type { RecordText, RecordWrite, Store } from "./store.ts";

export class LocalControl implements ControlStore {
  readonly isInCharge = true;
  readonly #store: Store;
  readonly #listeners: ControlListener[] = [];
  /** The commit that was begun last. */
  #last: Promise<void> = Promise.resolve();

  constructor(store: Store) {
    this.#store = store;
  }

  get state(): EngineState {
    return this.#store.state;
  }

  get records(): ControlRecords {
    return this.#store.control;
  }

  assertWritable(): void {
    this.#store.assertWritable();
  }

  assertDeletable(): void {
    this.#store.assertDeletable();
  }

  async commit(
    writes: readonly RecordWrite[],
    expected: readonly RecordText[] = [],
  ): Promise<boolean> {
    if (!this.#store.isUnchanged(expected)) {
      await this.#last;
      // What a commit that failed wanted stays visible in a failed store: whoever looks again would find it for ever.
      this.#store.assertWritable();
      return false;
    }
    const told = this.#store.commitRecords(writes).done.then(() => {
      tell(this.#listeners, writes.map(textOf));
    });
    // Whoever committed it hears why it failed.
    this.#last = told.catch(() => {});
    await told;
    return true;
  }

  async listen(listener: ControlListener): Promise<void> {
    this.#listeners.push(listener);
    await listener.load(this.records);
  }
}

/** Records are texts. */
export function textOf({ kind, key, value }: RecordWrite): RecordText {
  const text = typeof value === "string" ? value : Buffer.from(value).toString("utf8");
  return { key, text: kind === opKinds.delete ? undefined : text };
}
