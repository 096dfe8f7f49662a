/** What programs need that look into a data directory without a server. */
export {
  FaultError,
  type InspectedLog,
  type InspectedRecord,
  inspectLog,
  LevelKv,
  ReadOnlyDisk,
  readLog,
} from "@codeq/engine";
