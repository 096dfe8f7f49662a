/** The error of a command whose data on this machine cannot be read or written. */
import { CliError } from "../cli-error.ts";
import type { ExitName } from "../exit-codes.ts";

/** Throws what the command ends with; errors other than faults as they are. */
export async function throwFault(
  error: unknown,
  nextOf: (code: string) => string | undefined = () => undefined,
): Promise<never> {
  const { FaultError } = await import("@codeq/server/data-dir");
  if (!(error instanceof FaultError)) throw error;
  const { code, message, cause } = error;
  throw new CliError(message, { exit: exitOf(code), next: nextOf(code), cause });
}

function exitOf(code: string): ExitName {
  if (code === "locked") return "locked";
  return code === "disk_full" ? "full" : "data";
}
