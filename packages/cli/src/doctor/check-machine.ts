/** The machine around the server: Node, limits, memory, clock. */
import { readFileSync } from "node:fs";
import { freemem } from "node:os";
import { bytes } from "../terminal/units.ts";
import { cliVersion } from "../version.ts";
import { type Finding, ok, type Patient, warn } from "./check.ts";

const filesMin = 4096;
const memoryMin = 512 * 1024 ** 2;
/** Before the first commit of this project: a clock that says so has been reset. */
const plausibleMs = Date.UTC(2025, 0, 1);

export function checkVersions(): Finding {
  const { versions, platform, arch } = process;
  const found = `codeq ${cliVersion}, Node ${versions.node}, ${platform} ${arch}`;
  const major = Number(versions.node.split(".")[0]);
  if (major >= 24) return ok("versions", found);
  return warn("versions", found, "measured and tested on Node 24; install it for best speed");
}

export function checkOpenFiles(): Finding {
  const limit = openFilesLimit();
  if (limit === undefined) return ok("open files", "the limit is not known on this system");
  const found = Number.isFinite(limit) ? `at most ${limit}` : "no limit";
  if (limit >= filesMin) return ok("open files", found);
  const advice = `each connection takes one; raise it: ulimit -n ${filesMin} (or LimitNOFILE)`;
  return warn("open files", found, advice);
}

function openFilesLimit(): number | undefined {
  try {
    const limits = readFileSync("/proc/self/limits", "utf8");
    const text = /^Max open files\s+(\S+)/m.exec(limits)?.[1];
    if (text === undefined) return undefined;
    return text === "unlimited" ? Number.POSITIVE_INFINITY : Number(text);
  } catch {
    // Only Linux has such a file.
    return undefined;
  }
}

export function checkMemory(): Finding {
  const free = freemem();
  const found = `${bytes(free)} free`;
  if (free >= memoryMin) return ok("memory", found);
  return warn("memory", found, `a busy server takes ${bytes(memoryMin)}; make room`);
}

export function checkClock({ call, config }: Patient): Finding {
  const nowMs = call.host.clock.nowMs();
  const found = `${new Date(nowMs).toISOString()}, shown to callers in ${config.timezone}`;
  if (nowMs >= plausibleMs) return ok("clock", found);
  return warn("clock", found, "set the clock of this machine, or turn on its time service");
}
