/** `cluster init` and `cluster leave`: the data of a server alone for a cluster, and back. */
import type { ClusterDataParts, ConvertedData } from "@codeq/server/data-dir";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { dataDirectoryOf, serverConfig, throwFault } from "../local/data-directory.ts";
import { counted } from "../terminal/units.ts";

export async function init(call: Call): Promise<number> {
  const { initCluster } = await import("@codeq/server/data-dir");
  const next = "start this node with --cluster-bootstrap, then the others";
  return converted(call, initCluster, next);
}

export async function leave(call: Call): Promise<number> {
  const { leaveCluster } = await import("@codeq/server/data-dir");
  return converted(call, leaveCluster, "start the server without the settings of the cluster");
}

async function converted(
  call: Call,
  convert: (parts: ClusterDataParts) => Promise<ConvertedData>,
  next: string,
): Promise<number> {
  const { config: given } = await serverConfig(call);
  const config = { ...given, dataDir: dataDirectoryOf(call, given) };
  try {
    const done = await convert({ config, clock: call.host.clock });
    if (call.json) call.printJson(done);
    else {
      call.print(`${counted(done.shards, "shard")}, ${counted(done.entries, "record")}`);
      call.print(`the files as they were are in ${done.before}`);
      call.print(next);
    }
    return exitCodes.ok.code;
  } catch (error) {
    return throwFault(error);
  }
}
