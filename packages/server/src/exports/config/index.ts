/** What programs need that read configuration: the server's own, and YAML files beside it. */
export { type Document, parseDocument } from "yaml";
export { hasDevelopmentToken } from "../../config/choose-auth.ts";
export { describeConfig } from "../../config/describe.ts";
export { streamAddressOf } from "../../config/listen-address.ts";
export { loadConfig } from "../../config/load.ts";
export { openFilesAdvice, readOpenFilesMax } from "../../config/open-files.ts";
export type { Config } from "../../config/settings.ts";
export { hostToName, urlOf } from "../../start/welcome.ts";
