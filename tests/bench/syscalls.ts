/** Counts the system calls of a process, by perf where the kernel lets us, else by strace. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { pathOf } from "./programs.ts";

const event = "raw_syscalls:sys_enter";

/** Calls per second over so many seconds; undefined where neither program can tell. */
export async function syscallsPerSecond(
  pid: number | undefined,
  seconds: number,
): Promise<number | undefined> {
  const perf = pathOf("perf");
  if (perf !== undefined) {
    const args = ["stat", "-x,", "-e", event, "-p", String(pid), "--", "sleep", String(seconds)];
    const count = perfCount(await run(perf, args));
    if (count !== undefined) return count / seconds;
  }
  const strace = pathOf("strace");
  if (strace === undefined) return undefined;
  // It tells when it is interrupted. What it counts runs much slower meanwhile.
  const text = await run(strace, ["-c", "-f", "-q", "-p", String(pid)], seconds);
  const count = straceCount(text);
  return count === undefined ? undefined : count / seconds;
}

/** The standard error, to which both write; interrupted after so many seconds. */
async function run(path: string, args: readonly string[], seconds?: number): Promise<string> {
  const child = spawn(path, args, { stdio: ["ignore", "ignore", "pipe"] });
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (more: string) => {
    text += more;
  });
  const interrupt =
    seconds === undefined ? undefined : setTimeout(() => child.kill("SIGINT"), seconds * 1000);
  await once(child, "close");
  clearTimeout(interrupt);
  return text;
}

/** Undefined when perf could not count, which it says in place of the number. */
export function perfCount(text: string): number | undefined {
  const line = text.split("\n").find((each) => each.includes(event) && /^\d/.test(each));
  return line === undefined ? undefined : Number.parseInt(line, 10);
}

/** Of the table that `strace -c` ends with: the sum stands below its heading, whatever else is there. */
export function straceCount(text: string): number | undefined {
  const lines = text.split("\n");
  const total = lines.find((line) => / total$/.test(line));
  const end = lines.map((line) => / calls\b/.exec(line)).find((found) => found !== null);
  if (total === undefined || end === undefined || end === null) return undefined;
  const calls = /\d+$/.exec(total.slice(0, end.index + end[0].length));
  return calls === null ? undefined : Number(calls[0]);
}
