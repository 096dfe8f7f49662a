/**
 * npm does not tell its scripts when it is killed, and a shell is between them. The scripts notice it by
 * their parent: a process whose parent has ended gets another one.
 */
import { readFileSync } from "node:fs";

const lookMs = 250;
const shells = /^(sh|ash|dash|bash|zsh|ksh|busybox)$/;

export interface NpmWatch {
  /** npm leaves marks in the environment of what it starts. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly after: (delayMs: number, run: () => void) => () => void;
  readonly onEnded: () => void;
}

/** Calls back once npm has ended, if npm started this process; returns how to stop looking. */
export function watchNpm({ env, after, onEnded }: NpmWatch): () => void {
  if (env["npm_lifecycle_event"] === undefined) return () => {};
  const before = parents();
  const look = (): void => {
    if (parents() !== before || !isAlive(process.ppid)) onEnded();
    else cancel = after(lookMs, look);
  };
  let cancel = after(lookMs, look);
  return () => cancel();
}

/** Our parent, and when that is the shell of npm, its parent too. */
function parents(): string {
  const { ppid } = process;
  const { name, parent } = statusOf(ppid);
  return shells.test(name) ? `${ppid} ${parent}` : String(ppid);
}

function statusOf(pid: number): { readonly name: string; readonly parent: string } {
  try {
    const text = readFileSync(`/proc/${pid}/status`, "utf8");
    const [, name = ""] = /^Name:\s*(.*)$/m.exec(text) ?? [];
    const [, parent = ""] = /^PPid:\s*(.*)$/m.exec(text) ?? [];
    return { name, parent };
  } catch {
    // There is no /proc here, or the process has just ended, which its number will show.
    return { name: "", parent: "" };
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
