/**
 * kill -9 loses nothing that was acknowledged, in any durability mode: a power failure is something
 * else. A server under load is killed again and again on the same data directory, also while it
 * starts, and what clients were told is compared with what is there.
 *
 * CODEQ_SEED repeats the choices of a run; what the operating system does in between is its own.
 */
import assert from "node:assert/strict";
import { mkdirSync, watch } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { SimRandom } from "@codeq/simulated";
import { campaignLength } from "../campaign-length.ts";
import { ApiClient } from "../e2e/api-client.ts";
import {
  endOfServer,
  type ServerOptions,
  spawnServer,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";
import { History } from "./history.ts";
import { runLoad } from "./http-load.ts";
import { readDataDirectory, readShards } from "./open-store.ts";

const seed = process.env["CODEQ_SEED"] ?? String(Date.now());
/** Rounds after which the files are looked at, instead of leaving the recovery to the server. */
const lookInsideEvery = 4;
const startupKills = campaignLength({ short: 1, long: 4 });
const olderTasksLookedAt = 60;
/** Acknowledgements before a kill, at most. */
const loads = campaignLength({ short: [50, 200, 500], long: [50, 600, 1500] });
/** With several shards every log is cut at a moment of its own. */
const runs: readonly Run[] = [
  { durability: "fsync", shards: 1, rounds: campaignLength({ short: 4, long: 20 }) },
  { durability: "interval", shards: 1, rounds: campaignLength({ short: 2, long: 20 }) },
  { durability: "os", shards: 1, rounds: campaignLength({ short: 2, long: 20 }) },
  { durability: "fsync", shards: 4, rounds: campaignLength({ short: 2, long: 5 }) },
];

describe("a server that is killed with kill -9", { concurrency: 2 }, () => {
  // Compiled code is kept by a process that ends by itself, and none of the others does.
  before(() => endOfServer({ dataDir: "", args: ["--help"] }));

  for (const { durability, shards, rounds } of runs) {
    const many = shards === 1 ? "" : ` and there are ${shards} shards`;
    const name = `has everything it acknowledged when durability is ${durability}${many}`;
    test(name, async (t) => {
      const directory = temporaryDirectory();
      t.after(() => directory.dispose());
      const run = new KillRun({ durability, shards, rounds, dataDir: directory.path });
      t.after(() => run.dispose());
      await run.allRounds();
      const { acknowledged, acknowledgements, looks, stories } = run.history;
      t.diagnostic(
        `${durability}, ${shards} shards: ${run.kills} kills, ${acknowledgements} acknowledgements ` +
          `${JSON.stringify(Object.fromEntries(acknowledged))}, ` +
          `${stories.length} tasks, ${looks} looks, seed ${seed}`,
      );
    });
  }
});

interface Run {
  readonly durability: "fsync" | "interval" | "os";
  readonly shards: number;
  readonly rounds: number;
}

class KillRun {
  readonly history: History = new History();
  kills = 0;
  readonly #random: SimRandom;
  readonly #options: ServerOptions;
  /** Ends whatever a failed test leaves behind. */
  #cleanUp: () => Promise<void> = () => Promise.resolve();

  readonly #shards: number;
  readonly #rounds: number;

  constructor(options: Run & { readonly dataDir: string }) {
    const { durability, shards, rounds, dataDir } = options;
    this.#shards = shards;
    this.#rounds = rounds;
    this.#random = new SimRandom(`${seed}/${durability}/${shards}`);
    const backoff = { BACKOFF_POLICY: "fixed", BACKOFF_BASE_SECONDS: "1" };
    this.#options = {
      dataDir,
      env: { CODEQ_DURABILITY: durability, CODEQ_SHARDS: String(shards), ...backoff },
    };
  }

  async allRounds(): Promise<void> {
    for (let round = 1; round <= this.#rounds; round += 1) {
      if (round % Math.ceil(this.#rounds / startupKills) === 0) await this.#killWhileStarting();
      await this.#killUnderLoad();
      if (round % lookInsideEvery === 0) await this.#lookInside(`round ${round}`);
      this.#assertSound(`round ${round}`);
    }
    await this.#lookAtEverything();
    await this.#lookInside("the end");
  }

  async dispose(): Promise<void> {
    await this.#cleanUp();
  }

  /** Looks at what the last kill left, then kills after so many acknowledgements. */
  async #killUnderLoad(): Promise<void> {
    const { history } = this;
    const random = this.#random;
    const server = await startServer(this.#options);
    const api = new ApiClient(server.port);
    this.#cleanUp = () => server.kill();
    const lookAt = new Set(history.touched);
    for (let count = 0; count < olderTasksLookedAt && history.stories.length > 0; count += 1) {
      lookAt.add(random.pick(history.stories));
    }
    await history.verifyOverHttp(api, lookAt);
    let left = 20 + random.int(random.pick(loads));
    let isDown = false;
    await runLoad({
      api,
      history,
      random,
      isDown: () => isDown,
      onAcknowledged: () => {
        left -= 1;
        if (left > 0 || isDown) return;
        isDown = true;
        server.signal("SIGKILL");
      },
    });
    this.kills += 1;
    const exit = await server.exited;
    api.close();
    assert.equal(exit.signal, "SIGKILL", `the server ended by itself: ${exit.stderr}`);
    assert.doesNotMatch(exit.stdout, /"level":"error"/);
  }

  /** Kills when the files of the directory have changed so many times. */
  async #killWhileStarting(): Promise<void> {
    const { dataDir } = this.#options;
    const stores = [dataDir];
    for (let shard = 0; this.#shards > 1 && shard < this.#shards; shard += 1) {
      stores.push(join(dataDir, `shard-${shard}`));
    }
    const names = stores.flatMap((store) => [store, join(store, "kv"), join(store, "log")]);
    for (const name of names) mkdirSync(name, { recursive: true });
    const server = spawnServer(this.#options);
    this.#cleanUp = () => server.kill();
    let left = 1 + this.#random.int(40 * stores.length);
    const watchers = names.map((name) =>
      watch(name, () => {
        left -= 1;
        if (left === 0) server.signal("SIGKILL");
      }),
    );
    // It may be up before the last change was counted.
    await server.line((line) => line.includes('"listening"')).catch(() => {});
    await server.kill();
    for (const watcher of watchers) watcher.close();
    this.kills += 1;
  }

  async #lookAtEverything(): Promise<void> {
    const server = await startServer(this.#options);
    this.#cleanUp = () => server.kill();
    const api = new ApiClient(server.port);
    await this.history.verifyOverHttp(api, this.history.stories);
    api.close();
    const exit = await server.stop();
    assert.equal(exit.code, 0, exit.stderr);
    this.#assertSound("the last look");
  }

  async #lookInside(when: string): Promise<void> {
    const { dataDir } = this.#options;
    const contents =
      this.#shards === 1 ? readDataDirectory(dataDir) : readShards(dataDir, this.#shards);
    this.history.verifyStore(await contents);
    this.#assertSound(when);
  }

  #assertSound(when: string): void {
    const { problems } = this.history;
    const shown = problems.slice(0, 20).join("\n  ");
    assert.equal(problems.length, 0, `after ${when}, seed ${seed}:\n  ${shown}`);
  }
}
