/** The faults that a log reports, with messages for the operator. */
import { FaultError, isDiskFull } from "../fault.ts";

/** The fault that a caller of the log gets for an error of the disk. */
export function asFault(error: unknown, what: string): FaultError {
  if (error instanceof FaultError) return error;
  if (!isDiskFull(error)) return storageFailed(error, what);
  return new FaultError("disk_full", `${what}: there is no room left on the disk.`, error);
}

/** A final fault, whatever code the operating system gave. */
export function storageFailed(error: unknown, what: string): FaultError {
  const reason = error instanceof Error ? error.message : String(error);
  return new FaultError("storage_failed", `${what}: ${reason}`, error);
}

export function closed(): FaultError {
  return new FaultError("closed", "The log is closed.");
}

/** A shared log was trimmed beyond what this node has. */
export function behind(slot: number, firstSlot: number): FaultError {
  const message = `slot ${slot} is not in the log any more; it begins with ${firstSlot}`;
  return new FaultError("behind", message);
}

/** The record was removed, so the caller has lost part of its history. */
export function trimmed(index: number, firstIndex: number): FaultError {
  const message = `Record ${index} is not in the log any more; it starts at ${firstIndex}.`;
  return new FaultError("corrupt", message);
}
