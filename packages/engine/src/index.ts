export { create, type Op, put, remove } from "./batch-codec.ts";
export type { Disk, DiskFile } from "./disk/disk.ts";
export { NodeDisk } from "./disk/node-disk.ts";
export {
  Engine,
  type EngineClock,
  type EngineObserver,
  type EngineState,
  type EngineStats,
} from "./engine.ts";
export { FaultError } from "./fault.ts";
export type { Derive } from "./flusher.ts";
export type { Commit } from "./group.ts";
export type { Kv, KvEntry, KvRange, KvStats, KvWrite } from "./kv/kv.ts";
export { LevelKv } from "./kv/level-kv.ts";
export { MemoryKv } from "./kv/memory-kv.ts";
export { LocalLog } from "./log/local-log.ts";
export type { Log } from "./log/log.ts";
export { MemoryLog } from "./log/memory-log.ts";
export type { OverlayEntry } from "./overlay.ts";
