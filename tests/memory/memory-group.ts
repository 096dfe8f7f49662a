/**
 * A control group with a memory limit, for one process. Where groups cannot be written (no root, no
 * Linux), there is none, and whoever asked has to watch the memory by other means.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface MemoryGroup {
  /** Moves a process into the group; what it allocates from now on counts. */
  add(pid: number): void;
  /** How often the system ended something because the limit was reached. */
  kills(): number;
  /** To be called when the process has ended. */
  remove(): void;
}

const root = "/sys/fs/cgroup";

/** Undefined with the reason where there can be none. */
export function memoryGroup(limitBytes: number): MemoryGroup | { readonly why: string } {
  try {
    return existsSync(join(root, "memory")) ? first(limitBytes) : second(limitBytes);
  } catch (error) {
    return { why: (error as Error).message };
  }
}

/** Version 1, where memory has a hierarchy of its own. */
function first(limitBytes: number): MemoryGroup {
  const own = /^\d+:memory:(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1] ?? "/";
  const path = join(root, "memory", own, `codeq-memory-${process.pid}`);
  mkdirSync(path);
  writeFileSync(join(path, "memory.limit_in_bytes"), String(limitBytes));
  return groupAt(path, "memory.oom_control");
}

function second(limitBytes: number): MemoryGroup {
  const path = join(root, `codeq-memory-${process.pid}`);
  mkdirSync(path);
  try {
    writeFileSync(join(path, "memory.max"), String(limitBytes));
  } catch (error) {
    rmdirSync(path);
    throw error;
  }
  return groupAt(path, "memory.events");
}

function groupAt(path: string, events: string): MemoryGroup {
  return {
    add: (pid) => writeFileSync(join(path, "cgroup.procs"), String(pid)),
    kills: () =>
      Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(path, events), "utf8"))?.[1] ?? 0),
    remove: () => rmdirSync(path),
  };
}

/** The memory of a process that belongs to it alone. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}
