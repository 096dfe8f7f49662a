/** The store lets nobody see the engine below it; a test that has to is there when it is opened. */
import { Engine, type EngineOptions, type Log, type RowCodec } from "@codeq/engine";

export interface EngineTap {
  /** Undefined until it is open. */
  engine: Engine | undefined;
  /** As the engine was given it. */
  rows: RowCodec | undefined;
}

export type ChangeOptions = (options: EngineOptions) => EngineOptions;

const taps = new WeakMap<Log, { readonly tap: EngineTap; readonly change: ChangeOptions }>();
const open = Engine.open.bind(Engine);

Engine.open = async (options) => {
  const found = taps.get(options.log);
  if (found === undefined) return open(options);
  const changed = found.change(options);
  found.tap.rows = changed.rows;
  found.tap.engine = await open(changed);
  return found.tap.engine;
};

/** Waits for the engine that is opened over this log, and may change what it is given. */
export function tapEngine(log: Log, change: ChangeOptions = (options) => options): EngineTap {
  const tap: EngineTap = { engine: undefined, rows: undefined };
  taps.set(log, { tap, change });
  return tap;
}
