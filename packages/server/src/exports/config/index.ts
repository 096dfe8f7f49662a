/** For programs that read configuration: that of the server, and other YAML files. */
export { type Document, parseDocument } from "yaml";
export { hasDevelopmentToken } from "../../config/auth/choose-auth.ts";
export { describeConfig } from "../../config/describe.ts";
export { openFilesAdvice, readOpenFilesMax, streamAddressOf } from "../../config/listeners.ts";
export { loadConfig } from "../../config/load.ts";
export { inFlightOf, memoryOf } from "../../config/memory.ts";
export type { Config } from "../../config/settings.ts";
export { hostToName, urlOf } from "../../start/welcome.ts";
