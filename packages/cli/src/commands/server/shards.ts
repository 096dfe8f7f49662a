/** `shards migrate`: changes the number of shards of a data directory that no server uses. */
import type { MigrationProgress } from "@codeq/server/data-dir";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { dataDirectoryOf, serverConfig, throwFault } from "../../local/data-directory.ts";
import { ProgressBar } from "../../terminal/screen.ts";
import { count, counted } from "../../terminal/units.ts";

const shardsMax = 64;
const titles = { copy: "copying", verify: "verifying" } as const;

export async function migrate(call: Call): Promise<void> {
  const { options } = call;
  const to = options.wholeNumber("to", { min: 1, max: shardsMax });
  if ((to === undefined) !== options.has("abort")) {
    throw usageError("the new number of shards is missing", "codeq shards migrate --to <number>");
  }
  const { config: given } = await serverConfig(call);
  const config = { ...given, dataDir: dataDirectoryOf(call, given) };
  const { abortMigration, migrateShards } = await import("@codeq/server/data-dir");
  try {
    if (to === undefined) return aborted(call, await abortMigration({ config }));
    using shown = new ShownProgress(call);
    const setsAsideDamaged = options.has("set-aside-damaged");
    const { clock } = call.host;
    const onProgress = (progress: MigrationProgress): void => shown.set(progress);
    const migrated = await migrateShards(to, { config, clock, setsAsideDamaged, onProgress });
    shown[Symbol.dispose]();
    return done(call, migrated);
  } catch (error) {
    return throwFault(error, nextOf);
  }
}

function aborted(call: Call, wasUnderWay: boolean): void {
  const found = wasUnderWay
    ? "the change was cancelled; the data is unchanged"
    : "there is no unfinished change";
  call.answer({ aborted: wasUnderWay }, found);
}

interface Migrated {
  readonly from: number;
  readonly to: number;
  readonly tasks: number;
  readonly setAside: number;
}

function done(call: Call, migrated: Migrated): void {
  const { from, to, tasks, setAside } = migrated;
  if (call.json) call.printJson(migrated);
  else if (from === to) call.print(`the data already has ${counted(to, "shard")}`);
  else {
    call.print(`${from} -> ${to} shards, ${counted(tasks, "task")} moved and verified`);
    if (setAside > 0)
      call.print(`${counted(setAside, "record")} could not be read and stay in quarantine`);
    call.print(`set shards to ${to} before you start the server`);
  }
}

/** A bar on a terminal; elsewhere a line for each part of the work. */
class ShownProgress implements Disposable {
  readonly #call: Call;
  #phase: MigrationProgress["phase"] | undefined;
  #bar: ProgressBar | undefined;

  constructor(call: Call) {
    this.#call = call;
  }

  set({ phase, tasks, total }: MigrationProgress): void {
    const { host } = this.#call;
    if (this.#phase !== phase) {
      this.#phase = phase;
      this[Symbol.dispose]();
      const title = titles[phase];
      if (!host.errors.isTerminal) this.#call.note(`${title} ${count(total)} tasks`);
      this.#bar = new ProgressBar({ output: host.errors, clock: host.clock, title, total });
    }
    this.#bar?.set(tasks);
  }

  [Symbol.dispose](): void {
    this.#bar?.[Symbol.dispose]();
    this.#bar = undefined;
  }
}

function nextOf(code: string): string | undefined {
  if (code !== "disk_full") return undefined;
  return "the old data is unchanged: free some space and run the command again, or add --abort";
}
