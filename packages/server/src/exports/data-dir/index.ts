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
export { positionsIn, receiveBackup } from "../../core/backup/backups.ts";
export { isUnsettled } from "../../core/backup/replace-stores.ts";
export { restoreBackup, verifyBackup } from "../../core/backup/restore-backup.ts";
export { type SalvagedTask, salvageTasks } from "../../core/backup/salvage-tasks.ts";
export {
  type ClusterDataParts,
  type ConvertedData,
  initCluster,
  leaveCluster,
} from "../../start/cluster/cluster-data.ts";
export {
  abortMigration,
  type MigrationProgress,
  migrateShards,
} from "../../start/shards/migrate-shards.ts";
