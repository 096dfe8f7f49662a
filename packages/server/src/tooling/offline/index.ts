/** What programs need that read the server's configuration or data directory without a server. */
export {
  FaultError,
  type InspectedLog,
  type InspectedRecord,
  inspectLog,
  LevelKv,
  ReadOnlyDisk,
  readLog,
} from "@codeq/engine";
export { type Document, parseDocument } from "yaml";
export { hasDevelopmentToken } from "../../config/choose-auth.ts";
export { describeConfig } from "../../config/describe.ts";
export { loadConfig } from "../../config/load.ts";
export type { Config } from "../../config/settings.ts";
