/** `backup` and `restore`: copies a running server, and creates a data directory from the copy. */
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { dataDirectoryOf, serverConfig, throwFault } from "../../local/data-directory.ts";
import { ProgressBar } from "../../terminal/screen.ts";
import { bytes, count, counted } from "../../terminal/units.ts";

/** A large store takes its time. */
const waitMs = 24 * 60 * 60 * 1000;

export async function create(call: Call): Promise<void> {
  const api = await call.api();
  const body = { name: call.word(0), full: call.options.has("full") };
  const { text, value } = await api.call("POST /admin/backups", { body }, { waitMs });
  if (call.json) return call.print(text);
  for (const file of value.files) call.print(`${file.store}/${file.file}  ${bytes(file.bytes)}`);
  call.print(`written to ${value.directory} on the server`);
}

/** Reads a backup over the network, and stores it here. */
export async function store(call: Call): Promise<void> {
  const { positionsIn, receiveBackup } = await import("@codeq/server/data-dir");
  const to = call.options.text("to");
  if (to === undefined) {
    throw usageError(
      "--to is missing: the file or the folder of the backup",
      "codeq backup create <name> writes one on the machine of the server",
    );
  }
  const isFull = call.options.has("full");
  try {
    const since = isFull ? {} : await positionsIn(to);
    const known = Object.entries(since).map(([name, at]) => `${name}:${at.identity}:${at.index}`);
    const query = { since: known.join(",") || undefined };
    const api = await call.api();
    const pieces = await api.download("GET /admin/backup", { query });
    const { clock, errors: output } = call.host;
    using bar = new ProgressBar({ output, clock, title: "received bytes", total: undefined });
    const onBytes = (received: number): void => bar.set(received);
    const { files } = await receiveBackup({ to, pieces, isFull, onBytes });
    if (call.json) call.printJson({ to, files });
    else {
      for (const file of files) {
        const kind = file.kind === "full" ? "everything" : "what happened since";
        call.print(`${file.store}: ${kind}, ${count(file.items)} items, ${bytes(file.bytes)}`);
      }
      call.print(`stored in ${to}; codeq backup verify ${to} reads it as a restore would`);
      call.note("files of tasks are not part of it: copy the artifacts of the server as well");
    }
    return;
  } catch (error) {
    return throwFault(error);
  }
}

export async function verify(call: Call): Promise<void> {
  const { verifyBackup } = await import("@codeq/server/data-dir");
  return report(call, "sound", () => verifyBackup(call.word(0)));
}

export async function restore(call: Call): Promise<void> {
  const { restoreBackup } = await import("@codeq/server/data-dir");
  const { config } = await serverConfig(call);
  const dataDir = dataDirectoryOf(call, config);
  const at = call.options.instant("at");
  const atMs = at === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(at);
  const directory = call.word(0);
  return report(call, `restored to ${dataDir}`, () => restoreBackup({ directory, dataDir, atMs }));
}

interface Read {
  readonly stores: readonly { readonly entries: number; readonly records: number }[];
  readonly lastMs: number;
}

async function report(call: Call, done: string, read: () => Promise<Read>): Promise<void> {
  try {
    const { stores, lastMs } = await read();
    const last = new Date(lastMs).toISOString();
    const entries = stores.reduce((sum, store) => sum + store.entries, 0);
    const records = stores.reduce((sum, store) => sum + store.records, 0);
    if (call.json) call.printJson({ stores, last });
    else {
      const read = `${counted(stores.length, "store")}, ${count(entries)} entries, ${count(records)} log records`;
      call.print(`${done}: ${read}, up to ${last}`);
    }
    return;
  } catch (error) {
    return throwFault(error);
  }
}
