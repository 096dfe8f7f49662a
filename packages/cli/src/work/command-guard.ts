/**
 * Ends the commands of a worker that was killed. A killed process cannot clean up, so a shell beside it
 * holds the other end of a pipe and knows which process groups are running. When the pipe closes, it
 * asks those groups to end and kills what is left after a while.
 *
 * Assumes a POSIX shell; on Windows commands of a killed worker go on.
 */
import { type ChildProcess, spawn } from "node:child_process";

/** As long as a command gets that is stopped with its worker. */
const killAfterSeconds = 4;

const script = `
groups=
while read -r what group; do
  if [ "$what" = + ]; then
    groups="$groups $group"
  else
    rest=
    for each in $groups; do [ "$each" = "$group" ] || rest="$rest $each"; done
    groups=$rest
  fi
done
[ -z "$groups" ] && exit
for each in $groups; do kill -s TERM -- "-$each"; done
sleep ${killAfterSeconds}
for each in $groups; do kill -s KILL -- "-$each"; done
`;

export class CommandGuard {
  readonly #shell: ChildProcess | undefined;

  constructor() {
    if (process.platform === "win32") return;
    this.#shell = spawn("/bin/sh", ["-c", script], {
      stdio: ["pipe", "ignore", "ignore"],
      // A signal to the group of the worker is not for the guard.
      detached: true,
    });
    // Without a guard commands run all the same.
    this.#shell.on("error", () => {});
    this.#shell.stdin?.on("error", () => {});
    this.#shell.unref();
    (this.#shell.stdin as { unref?: () => void } | null)?.unref?.();
  }

  /** The command with this process id leads a group that must not outlive the worker. */
  watch(pid: number): void {
    this.#shell?.stdin?.write(`+ ${pid}\n`);
  }

  ended(pid: number): void {
    this.#shell?.stdin?.write(`- ${pid}\n`);
  }
}
