/** The control store of a single server: its own store, which no other server writes. */
import { type EngineState, opKinds } from "@codeq/engine";
import type { RecordText, RecordWrite, Store } from "../store/store.ts";
import type { ControlRecords } from "./control-records.ts";
import { type ControlListener, type ControlStore, notify } from "./control-store.ts";

export class LocalControl implements ControlStore {
  readonly isInCharge = true;
  readonly #store: Store;
  readonly #listeners: ControlListener[] = [];
  /** The newest commit. */
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
      // In a failed store, the writes of a failed commit stay visible: the caller would retry forever.
      this.#store.assertWritable();
      return false;
    }
    const notified = this.#store.commitRecords(writes).done.then(() => {
      notify(this.#listeners, writes.map(textOf));
    });
    // The caller of this commit gets the error.
    this.#last = notified.catch(() => {});
    await notified;
    return true;
  }

  async refresh(): Promise<void> {
    // There is no other node.
  }

  async listen(listener: ControlListener): Promise<void> {
    this.#listeners.push(listener);
    await listener.load(this.records);
  }
}

export function textOf({ kind, key, value }: RecordWrite): RecordText {
  const text = typeof value === "string" ? value : Buffer.from(value).toString("utf8");
  return { key, text: kind === opKinds.delete ? undefined : text };
}
