/**
 * Loaded into a server before anything else: on SIGUSR2 the operation named in CODEQ_TEST_FAULT
 * begins to fail as it does on a broken disk.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

type Callback = (error: Error | null) => void;
type Operation = (fd: number, ...rest: unknown[]) => unknown;

const name = process.env["CODEQ_TEST_FAULT"] ?? "";
let isBroken = false;

function failure(): Error {
  return Object.assign(new Error(`EIO: i/o error, ${name}`), { code: "EIO" });
}

function breakable(real: Operation, fail: (args: readonly unknown[]) => unknown): Operation {
  return (fd, ...rest) => (isBroken ? fail(rest) : real(fd, ...rest));
}

/** Large writes are made in another thread, small ones here. */
for (const each of [name, `${name}Sync`] as ("fdatasync" | "fsync" | "write")[]) {
  const isSync = each.endsWith("Sync");
  const fail = (args: readonly unknown[]): void => {
    if (isSync) throw failure();
    setImmediate(() => (args.at(-1) as Callback)(failure()));
  };
  Object.assign(fs, { [each]: breakable(fs[each] as unknown as Operation, fail) });
}
syncBuiltinESMExports();

process.on("SIGUSR2", () => {
  isBroken = true;
  process.stdout.write("the disk is broken\n");
});
