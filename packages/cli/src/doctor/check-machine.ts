/** Checks the machine of the server: Node, limits, memory, clock. */
import { freemem } from "node:os";
import { bytes } from "../terminal/units.ts";
import { cliVersion } from "../version.ts";
import { type Finding, ok, type Patient, warn } from "./finding.ts";

const memoryMin = 512 * 1024 ** 2;
/** Before the first commit of this project: a clock that says so has been reset. */
const plausibleMs = Date.UTC(2025, 0, 1);

export function checkVersions(): Finding {
  const { versions, platform, arch } = process;
  const found = `codeq ${cliVersion}, Node ${versions.node}, ${platform} ${arch}`;
  const major = Number(versions.node.split(".")[0]);
  if (major >= 24) return ok("versions", found);
  return warn(
    "versions",
    found,
    "codeQ is tested with Node 24; install it for the best performance",
  );
}

/** What the server itself says about it when it starts. */
export async function checkOpenFiles({ config }: Patient): Promise<Finding> {
  const { openFilesAdvice, readOpenFilesMax } = await import("@codeq/server/config");
  const limit = readOpenFilesMax();
  if (limit === undefined) return ok("open files", "no limit, or the limit is unknown");
  const found = `at most ${limit}`;
  const advice = openFilesAdvice(config, limit);
  return advice === undefined ? ok("open files", found) : warn("open files", found, advice);
}

export function checkMemory(): Finding {
  const free = freemem();
  const found = `${bytes(free)} free`;
  if (free >= memoryMin) return ok("memory", found);
  return warn("memory", found, `a busy server needs ${bytes(memoryMin)}; add memory`);
}

export function checkClock({ call, config }: Patient): Finding {
  const nowMs = call.host.clock.nowMs();
  const found = `${new Date(nowMs).toISOString()}, shown to callers in ${config.timezone}`;
  if (nowMs >= plausibleMs) return ok("clock", found);
  return warn("clock", found, "set the clock of this machine, or turn on time synchronization");
}
