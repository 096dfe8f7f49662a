/** Writes a backup of the running server: all tenants, tasks, API keys and audit records. */
import { join } from "node:path";
import type { Queue } from "../broker/queue.ts";
import type { Store } from "../store/store.ts";
import { type WrittenBackup, writeBackup } from "../store/write-backup.ts";
import { type Operation, refusal } from "./operation.ts";

export interface BackupControl {
  readonly store: Store;
}

export interface CreateBackupInput {
  /** The folder below the directory for backups. */
  readonly name: string;
  readonly isFull: boolean;
}

export interface CreatedBackup {
  readonly directory: string;
  readonly files: readonly WrittenBackup[];
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** One at a time: two would write the same file. */
const underWay = new WeakSet<Queue>();

export const createBackup: Operation<CreateBackupInput, CreatedBackup> = {
  name: "create_backup",
  access: "operator",
  scope: undefined,
  showsPayloads: true,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ name }) => name, detail: ({ files }) => `${files.length} files` },
  run: async ({ queue, backupControl, config }, _call, { name, isFull }) => {
    if (!namePattern.test(name)) {
      return refusal("invalid_argument", "invalid 'name' (letters, digits, '.', '_' and '-')");
    }
    if (underWay.has(queue)) return refusal("backup_under_way");
    underWay.add(queue);
    try {
      const directory = join(config.backupDir, name);
      const wanted = { directory, store: "control", isFull };
      const control =
        backupControl === undefined ? [] : [await writeBackup(backupControl.store, wanted)];
      return {
        ok: true,
        value: { directory, files: [...control, ...(await queue.backup(wanted))] },
      };
    } finally {
      underWay.delete(queue);
    }
  },
};
