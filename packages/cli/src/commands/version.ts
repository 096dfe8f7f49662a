/** `version`: prints the version. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { cliVersion } from "../version.ts";

export async function run(call: Call): Promise<number> {
  const { platform, arch, versions } = process;
  if (call.json) call.printJson({ version: cliVersion, node: versions.node, platform, arch });
  else call.print(`codeq ${cliVersion} (Node ${versions.node}, ${platform} ${arch})`);
  return exitCodes.ok.code;
}
