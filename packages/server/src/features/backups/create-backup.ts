/** Writes a backup of the running server: all tenants, tasks, API keys and audit records. */
import { join } from "node:path";
import type { ClusterStatus } from "../../cluster/cluster-node.ts";
import { type WrittenBackup, writeBackup } from "../../core/backup/backups.ts";
import type { Queue } from "../../core/broker/queue.ts";
import type { Store } from "../../core/store/store.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

/** Of what is no task, where that is in a store of its own. */
export interface BackupControl {
  /** Undefined while another node of the cluster leads it. */
  readonly store: Store | undefined;
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
  run: async ({ queue, backupControl, config, cluster }, _call, { name, isFull }) => {
    if (!namePattern.test(name)) {
      return refusal("invalid_argument", "invalid 'name' (letters, digits, '.', '_' and '-')");
    }
    const elsewhere = cluster === undefined ? undefined : ledElsewhere(cluster.status);
    if (elsewhere !== undefined) return refusal("led_elsewhere", elsewhere);
    if (underWay.has(queue)) return refusal("backup_under_way");
    underWay.add(queue);
    try {
      const directory = join(config.backupDir, name);
      const wanted = { directory, store: "control", isFull };
      const store = backupControl?.store;
      const control = store === undefined ? [] : [await writeBackup(store, wanted)];
      return {
        ok: true,
        value: { directory, files: [...control, ...(await queue.backup(wanted))] },
      };
    } finally {
      underWay.delete(queue);
    }
  },
};

/** Files are written by the leaders, each on its own disk. */
function ledElsewhere({ self, shards, control }: ClusterStatus): string | undefined {
  const logs = [
    ...shards.map(({ shard, leader }) => ({ name: `shard ${shard}`, leader })),
    { name: "the control log", leader: control.leader },
  ];
  const other = logs.find(({ leader }) => leader?.id !== self.id);
  if (other === undefined) return undefined;
  const { id = "no node" } = other.leader ?? {};
  return (
    `${other.name} is led by ${id}, and a backup is written by the node that leads everything; ` +
    `run codeq cluster handoff --to ${self.id} first`
  );
}

declare module "../../edge/operation.ts" {
  interface Server {
    /** Undefined where the control records are in the store of the only shard. */
    readonly backupControl: BackupControl | undefined;
  }
}
