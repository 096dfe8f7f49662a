/** `node:child_process` in the executable: a process for one of its parts is the executable again. */
import { type ChildProcess, spawn as nodeSpawn, type SpawnOptions } from "node:child_process";
import { partOf } from "./parts.ts";

export * from "node:child_process";

/** Flags of Node that stand before the path are dropped: the executable has its own. */
export function spawn(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  const at = command === process.execPath ? args.findIndex((arg) => !arg.startsWith("--")) : -1;
  const part = partOf(args[at] ?? "");
  const given = part === undefined ? args : [part, ...args.slice(at + 1)];
  return nodeSpawn(command, given, options);
}
