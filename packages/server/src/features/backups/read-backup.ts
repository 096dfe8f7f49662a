/** Gives a backup of the running server to a caller who stores it: all tenants, tasks, API keys and audit records. */
import { type BackupReading, readBackup as readStore } from "../../core/backup/backups.ts";
import { type Answer, type Operation, refusal, type Server } from "../../edge/operation.ts";

export interface ReadBackupInput {
  /** Where an earlier backup ends: `<store>:<identity>:<record>` of each store; empty for everything. */
  readonly since: string;
}

type Since = BackupReading["since"];

const readerBytes = 8;
const pattern = /^(control|shard-\d{1,5}):(\d{1,16}):(\d{1,16})$/;

export const readBackup: Operation<ReadBackupInput, AsyncGenerator<Buffer>> = {
  name: "read_backup",
  access: "operator",
  scope: undefined,
  showsPayloads: true,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ since }) => (since === "" ? "full" : "since") },
  run: (server, _call, { since }) => {
    const { cluster, backupControl } = server;
    if (cluster !== undefined && backupControl?.store === undefined) {
      const { self, control } = cluster.status;
      const { id = "no node" } = control.leader ?? {};
      const todo = `run codeq cluster handoff --to ${self.id} first`;
      return refusal("led_elsewhere", `the control log is led by ${id}; ${todo}`);
    }
    const read = sinceOf(since);
    return read.ok ? { ok: true, value: piecesOf(server, read.value) } : read;
  },
};

async function* piecesOf(
  { queue, backupControl, randomBytes }: Server,
  since: Since,
): AsyncGenerator<Buffer> {
  const control = backupControl?.store;
  if (control !== undefined) {
    yield* readStore(control, { store: "control", since: since["control"] });
  }
  const id = Buffer.alloc(readerBytes);
  randomBytes(id);
  yield* queue.readBackup({ reader: id.toString("hex"), since });
}

function sinceOf(text: string): Answer<Since> {
  const since: Record<string, Since[string]> = {};
  for (const part of text === "" ? [] : text.split(",")) {
    const [, store, identity, index] = pattern.exec(part) ?? [];
    if (store === undefined) {
      const rule = "<store>:<identity>:<record>, separated by commas";
      return refusal("invalid_argument", `invalid 'since' (${rule})`);
    }
    since[store] = { identity: Number(identity), index: Number(index) };
  }
  return { ok: true, value: since };
}
