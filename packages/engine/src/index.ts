export { create, type Op, put, remove } from "./batch-codec.ts";
export type { Disk, DiskFile } from "./disk/disk.ts";
export { NodeDisk } from "./disk/node-disk.ts";
export { ReadOnlyDisk } from "./disk/read-only-disk.ts";
export { Engine } from "./engine.ts";
export type { EngineClock, EngineObserver, EngineState, EngineStats } from "./engine-options.ts";
export { FaultError } from "./fault.ts";
export type { Derive } from "./flusher.ts";
export type { Commit } from "./group.ts";
export type { Indexing, Row } from "./index-keys.ts";
export type { Kv, KvCursor, KvEntry, KvRange, KvStats, KvWrite } from "./kv/kv.ts";
export { LevelKv } from "./kv/level-kv.ts";
export { MemoryKv } from "./kv/memory-kv.ts";
export {
  type InspectedLog,
  type InspectedRecord,
  inspectLog,
  readLog,
} from "./log/inspect-log.ts";
export { LocalLog } from "./log/local-log.ts";
export type { Log } from "./log/log.ts";
export { MemoryLog } from "./log/memory-log.ts";
export type { OverlayEntry } from "./overlay.ts";
