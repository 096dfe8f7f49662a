/**
 * The part of the server that a command line needs at every start: its tables, its clock and a way to launch
 * it. Importing it loads none of the server itself. Parts that take longer to load are separate exports:
 * `@codeq/server/config` reads configuration, `@codeq/server/data-dir` reads data directories.
 */
export { errors, limits } from "@codeq/protocol";
export { etcdModule, etcdVersion, installedEtcd } from "../../cluster/etcd/etcd-program.ts";
export { developmentToken } from "../../config/auth/choose-auth.ts";
export {
  configPathEnv,
  configPathFlag,
  flagOf,
  rowOf,
  settingNames,
} from "../../config/setting-table.ts";
export { type Clock, systemClock } from "../../core/clock.ts";
export { closestName } from "../../core/closest-name.ts";
export { type JsonSchema, schemaOf } from "../../edge/http/contract/contract-schema.ts";
export { plannedRuns } from "../../features/schedules/planned-runs.ts";
export { launchServer, standInFor } from "../../start/launch.ts";
