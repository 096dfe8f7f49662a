/**
 * A backup of a server under load has everything that was acknowledged before it was asked for, and is sound as
 * a whole; so is what a server leaves behind that is killed while it writes another one.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  restoreBackup,
  verifyBackup,
} from "../../packages/server/src/core/backup/restore-backup.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { readDataDirectory, readShards } from "./open-store.ts";

const operator = {
  token: "dev-token",
  subject: "ops",
  raw: { tenantId: "dev-tenant", roles: ["operator"] },
};
const creators = 8;
const perStep = 300;

class Load {
  readonly acknowledged: string[] = [];
  readonly #api: ApiClient;
  readonly #ended: Promise<unknown>;
  #waiting: { readonly count: number; readonly resolve: () => void } | undefined;

  constructor(api: ApiClient) {
    this.#api = api;
    this.#ended = Promise.allSettled(Array.from({ length: creators }, () => this.#create()));
  }

  /** Resolves when so many more were acknowledged. */
  more(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = { count: this.acknowledged.length + count, resolve };
    });
  }

  async end(): Promise<void> {
    await this.#ended;
  }

  async #create(): Promise<void> {
    for (;;) {
      const payload = { text: "x".repeat(this.acknowledged.length % 1500) };
      const reply = await this.#api.create({ command: "work", payload });
      assert.equal(reply.status, 202, reply.text);
      this.acknowledged.push((JSON.parse(reply.text) as { id: string }).id);
      if (this.acknowledged.length >= (this.#waiting?.count ?? Number.POSITIVE_INFINITY)) {
        this.#waiting?.resolve();
      }
    }
  }
}

function start(dataDir: string, backupDir: string, shards: number): Promise<ServerProcess> {
  return startServer({
    dataDir,
    env: {
      CODEQ_SHARDS: String(shards),
      CODEQ_BACKUP_DIR: backupDir,
      PRODUCER_AUTH_CONFIG: JSON.stringify(operator),
      ALLOW_PRODUCER_AS_WORKER: "true",
    },
  });
}

async function backup(api: ApiClient): Promise<readonly string[]> {
  const reply = await api.post("/admin/backups", { name: "daily" });
  assert.equal(reply.status, 201, reply.text);
  const { files } = JSON.parse(reply.text) as { files: readonly { kind: string }[] };
  return files.map(({ kind }) => kind);
}

describe("backups under load and kill -9", () => {
  for (const shards of [1, 3]) {
    test(`what was acknowledged is restored, with ${shards} shards`, async (t) => {
      const directory = temporaryDirectory();
      t.after(() => directory.dispose());
      const [dataDir, backupDir] = [join(directory.path, "data"), join(directory.path, "backups")];
      const server = await start(dataDir, backupDir, shards);
      t.after(() => server.kill());
      const api = new ApiClient(server.port);
      const load = new Load(api);
      await load.more(perStep);
      assert.ok((await backup(api)).every((kind) => kind === "full"));
      await load.more(perStep);
      const known = [...load.acknowledged];
      assert.ok((await backup(api)).every((kind) => kind === "log"));
      const unfinished = api.post("/admin/backups", { name: "daily", full: true });
      server.signal("SIGKILL");
      await Promise.allSettled([unfinished, server.exited]);
      await load.end();
      api.close();
      const from = join(backupDir, "daily");
      await verifyBackup(from);
      const restored = join(directory.path, "restored");
      await restoreBackup({
        directory: from,
        dataDir: restored,
        atMs: Number.MAX_SAFE_INTEGER,
      });
      const { tasks, problems } =
        shards === 1 ? await readDataDirectory(restored) : await readShards(restored, shards);
      assert.deepEqual(problems, []);
      const lost = known.filter((id) => !tasks.has(id as never));
      assert.deepEqual(lost, []);
      // The server goes on with its own files, and so do its backups.
      const again = await start(dataDir, backupDir, shards);
      t.after(() => again.kill());
      const other = new ApiClient(again.port);
      await backup(other);
      other.close();
      await again.stop();
      await verifyBackup(from);
      const next = await start(restored, backupDir, shards);
      t.after(() => next.kill());
      const last = new ApiClient(next.port);
      assert.equal((await last.task(known[0] as string))?.status, "PENDING");
      last.close();
      await next.stop();
    });
  }
});
