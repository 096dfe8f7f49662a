/** What programs need that look into a data directory without a server. */
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
