/** Backups of the running server: all tenants, tasks, API keys and audit records. */
import { join } from "node:path";
import { Readable } from "node:stream";
import { api } from "@codeq/protocol/api";
import type { ClusterStatus } from "../../cluster/cluster-node.ts";
import {
  type BackupReading,
  readBackup as readStore,
  writeBackup,
} from "../../core/backup/backups.ts";
import type { Broker } from "../../core/broker/broker.ts";
import type { Store } from "../../core/store/store.ts";
import { bind, bindInput } from "../../edge/bind.ts";
import { refusal, type Server } from "../../edge/operation.ts";

/** Backs up the control store where it is a store of its own. */
export interface BackupControl {
  /** Undefined while another node of the cluster leads it. */
  readonly store: Store | undefined;
}

/** One at a time: two would write the same file. */
const underWay = new WeakSet<Broker>();

/** Writes a backup on the machine of the server. */
export const createBackup = bind(api.backups.createBackup, {
  showsPayloads: true,
  run: async ({ broker, backupControl, config, cluster }, _call, { name, isFull }) => {
    const elsewhere = cluster === undefined ? undefined : ledElsewhere(cluster.status);
    if (elsewhere !== undefined) return refusal("led_elsewhere", elsewhere);
    if (underWay.has(broker)) return refusal("backup_under_way");
    underWay.add(broker);
    try {
      const directory = join(config.backupDir, name);
      const wanted = { directory, store: "control", isFull };
      const store = backupControl?.store;
      const control = store === undefined ? [] : [await writeBackup(store, wanted)];
      const files = [...control, ...(await broker.backup(wanted))];
      return { ok: true, value: { directory, files } };
    } finally {
      underWay.delete(broker);
    }
  },
  audit: { target: ({ name }) => name, detail: ({ files }) => `${files.length} files` },
});

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

/** Gives a backup to a caller who stores it. */
export const readBackup = bindInput(api.backups.readBackup, {
  rate: { scope: "admin", operation: "tasks" },
  showsPayloads: true,
  run: (server, _call, { since }) => {
    const { cluster, backupControl } = server;
    if (cluster !== undefined && backupControl?.store === undefined) {
      const { self, control } = cluster.status;
      const { id = "no node" } = control.leader ?? {};
      const todo = `run codeq cluster handoff --to ${self.id} first`;
      return refusal("led_elsewhere", `the control log is led by ${id}; ${todo}`);
    }
    return { ok: true, value: piecesOf(server, sinceOf(since)) };
  },
  audit: { of: "all", target: ({ since }) => (since === "" ? "full" : "since") },
});

type Since = BackupReading["since"];
const readerBytes = 8;

async function* piecesOf(
  { broker, backupControl, randomBytes }: Server,
  since: Since,
): AsyncGenerator<Buffer> {
  const control = backupControl?.store;
  if (control !== undefined) {
    yield* readStore(control, { store: "control", since: since["control"] });
  }
  const id = Buffer.alloc(readerBytes);
  randomBytes(id);
  yield* broker.readBackup({ reader: id.toString("hex"), since });
}

function sinceOf(text: string): Since {
  const parts = text === "" ? [] : text.split(",").map((part) => part.split(":"));
  return Object.fromEntries(
    parts.map(([store, identity, index]) => [
      store,
      { identity: Number(identity), index: Number(index) },
    ]),
  );
}

export const sentBackup = {
  operation: readBackup,
  waits: () => true,
  reply: (pieces: AsyncIterable<Buffer>) => ({
    status: 200,
    body: Readable.from(pieces, { objectMode: false }),
    headers: { "content-type": "application/octet-stream", "cache-control": "no-store" },
  }),
};

declare module "../../edge/operation.ts" {
  interface Server {
    /** Undefined where the control records are in the store of the only shard. */
    readonly backupControl: BackupControl | undefined;
  }
}
