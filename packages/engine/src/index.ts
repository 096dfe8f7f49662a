export { create, type DecodedOp, type Op, opKinds, put, remove } from "./batch-codec.ts";
export type { Disk, DiskDone, DiskFile } from "./disk/disk.ts";
export { NodeDisk, ReadOnlyDisk } from "./disk/node-disk.ts";
export { Engine } from "./engine.ts";
export type {
  EngineClock,
  EngineObserver,
  EngineOptions,
  EngineState,
  EngineStats,
} from "./engine-options.ts";
export { FaultError } from "./fault.ts";
export { type Derive, positionKey, readStoreId } from "./flusher.ts";
export {
  endedKey,
  Follower,
  type FollowerOptions,
  logPositionOf,
} from "./follower.ts";
export type { Commit, CommitWaiter, Group } from "./group-commit.ts";
export {
  type BackupPosition,
  continueWithLog,
  entriesOf,
  type ImageBytes,
  type ImageFile,
  type ImageSection,
  install,
  KvFiller,
  moveToLog,
  type RestoredStore,
  readEntry,
  readHead,
  readSections,
  restoreStore,
  sealed,
  snapshotOf,
} from "./image.ts";
export { type CheckedTables, scrubTables } from "./kv/check-tables.ts";
export { sealedEnd, unseal } from "./kv/checked-value.ts";
export { DataLock } from "./kv/data-lock.ts";
export type { Kv, KvBatch, KvCursor, KvEntry, KvRange, KvStats, KvWrite } from "./kv/kv.ts";
export { LevelKv, type LevelSizes, levelSizes } from "./kv/level-kv.ts";
export { CollectedBatch, MemoryKv } from "./kv/memory-kv.ts";
export {
  type InspectedLog,
  type InspectedRecord,
  inspectLog,
  readLog,
} from "./log/inspect-log.ts";
export { LocalLog } from "./log/local-log.ts";
export type { Log } from "./log/log.ts";
export { MemoryLog } from "./log/memory-log.ts";
export type { LeaderLog } from "./log/replicated/leader-log.ts";
export {
  type LeaderName,
  type Leading,
  Replica,
  type ReplicaRole,
  type ReplicaStatus,
  type ReplicaTiming,
  replicaTiming,
  replicaTimingOf,
} from "./log/replicated/replica.ts";
export type { SharedLog } from "./log/replicated/shared-log.ts";
export type { RowCursor } from "./merged-scan.ts";
export { type FilesOptions, type OpenedFiles, openFiles } from "./open-files.ts";
export { OpenedParts } from "./opened-parts.ts";
export type { OverlayEntry, RowEntry, Unflushed } from "./overlay.ts";
export {
  type KeyWrites,
  type Row,
  type RowChange,
  type RowCodec,
  recordOf,
  writeIndexKeys,
} from "./row-codec.ts";
export { type OnDamage, salvageLog, salvageTables } from "./salvage.ts";
