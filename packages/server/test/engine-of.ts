/**
 * The engine below a store. Nobody but tests looks at it: to walk all keys, to damage some, or to make a
 * write fail. Importing this remembers the engine of every store that is opened afterwards.
 */
import assert from "node:assert/strict";
import { Engine, type Log } from "@codeq/engine";
import { Store } from "../src/core/store/store.ts";

const ofLogs = new WeakMap<Log, Engine>();
const ofStores = new WeakMap<Store, Engine>();
const openEngine = Engine.open;
const openStore = Store.open;

Engine.open = async (options) => {
  const engine = await openEngine.call(Engine, options);
  ofLogs.set(options.log, engine);
  return engine;
};

Store.open = async (options) => {
  const store = await openStore.call(Store, options);
  ofStores.set(store, ofLogs.get(options.log) as Engine);
  return store;
};

export function engineOf(store: Store): Engine {
  const engine = ofStores.get(store);
  assert.ok(engine !== undefined, "the store was opened before anybody was interested");
  return engine;
}

const reads = [
  "row",
  "get",
  "getText",
  "scan",
  "scanKeys",
  "firstKeys",
  "readAhead",
  "readRowsAhead",
] as const;

/** Tells of every read that the store makes; returns how to stop that. */
export function watchReads(store: Store, read: () => void): () => void {
  const engine = engineOf(store);
  const watched = engine as unknown as Record<string, (...of: unknown[]) => unknown>;
  for (const name of reads) {
    const original = watched[name] as (...of: unknown[]) => unknown;
    watched[name] = (...of) => {
      read();
      return original.apply(engine, of);
    };
  }
  return () => {
    for (const name of reads) delete watched[name];
  };
}
