/** For programs that work on a data directory without a server. */
export {
  type CheckedTables,
  DataLock,
  FaultError,
  type InspectedLog,
  type InspectedRecord,
  inspectLog,
  ReadOnlyDisk,
  readLog,
  scrubTables,
} from "@codeq/engine";
export {
  type ClusterDataParts,
  type ConvertedData,
  initCluster,
  leaveCluster,
} from "../../start/cluster-data.ts";
export {
  abortMigration,
  type MigrationProgress,
  migrateShards,
} from "../../start/migrate-shards.ts";
export { positionsIn, receiveBackup } from "../../store/receive-backup.ts";
export { restoreBackup, verifyBackup } from "../../store/restore-backup.ts";
export { type SalvagedTask, salvageTasks } from "../../store/salvage-tasks.ts";
