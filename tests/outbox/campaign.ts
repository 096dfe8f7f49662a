/**
 * Kills a relay, the server and Postgres with SIGKILL at every step of a relay's transaction, while transactions
 * commit, roll back and commit late, and a second relay works beside the first. The truth is a table of the
 * application that is written in the same transactions: in the end there is one task for each of its rows.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { codeq } from "@codeq/client";
import type pg from "pg";
import { freePortRows } from "../cluster/free-ports.ts";
import {
  Child,
  root,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";
import { PostgresServer } from "./postgres-server.ts";
import { type Bug, type RelayChildOptions, type Step, steps } from "./relay-child.ts";
import { outbox, sendMail } from "./send-mail.ts";

const victims = ["relay", "server", "Postgres"] as const;
type Victim = (typeof victims)[number];

interface Kill {
  readonly step: Step;
  readonly victim: Victim;
}

/** Every victim at every step. */
export const kills: readonly Kill[] = steps.flatMap((step) =>
  victims.map((victim) => ({ step, victim })),
);

export interface Verdict {
  readonly committed: number;
  readonly rolledBack: number;
  /** Transactions that were open while many others were committed and delivered. */
  readonly late: number;
  readonly tasks: number;
  /** What is wrong; empty when all is well. */
  readonly problems: readonly string[];
}

export interface CampaignOptions {
  readonly kills: readonly Kill[];
  readonly bug?: Bug | undefined;
  readonly tell?: (line: string) => void;
}

export async function campaign({
  kills: rounds,
  bug,
  tell = () => {},
}: CampaignOptions): Promise<Verdict> {
  await using world = await World.open(bug);
  for (const [round, kill] of rounds.entries()) {
    await world.round(kill);
    tell(`round ${round + 1} of ${rounds.length}: ${kill.victim} killed, step ${kill.step}`);
  }
  return await world.verdict();
}

/** Every fourth transaction rolls back. */
const rollbackEvery = 4;

class World implements AsyncDisposable {
  readonly #postgres: PostgresServer;
  readonly #directory = temporaryDirectory();
  readonly #ports: readonly number[];
  readonly #bug: Bug | undefined;
  #server: ServerProcess | undefined;
  #relays: Child[] = [];
  #orders = 0;
  /** Transactions whose COMMIT was answered, or whose ROLLBACK was. */
  readonly #committed = new Set<number>();
  readonly #rolledBack = new Set<number>();
  #late: { readonly tx: pg.Client; readonly order: number } | undefined;
  #lateCount = 0;

  private constructor(postgres: PostgresServer, ports: readonly number[], bug: Bug | undefined) {
    this.#postgres = postgres;
    this.#ports = ports;
    this.#bug = bug;
  }

  static async open(bug: Bug | undefined): Promise<World> {
    const postgres = await PostgresServer.open();
    await postgres.database.query("CREATE TABLE orders (id int PRIMARY KEY)");
    const [first = 0] = await freePortRows(1, 3);
    const world = new World(postgres, [first, first + 1, first + 2], bug);
    await world.#startServer();
    await world.#startRelay({});
    return world;
  }

  /** Kills the victim when the first relay is at the step, and repairs what was killed. */
  async round({ step, victim }: Kill): Promise<void> {
    await this.#openLate();
    const relay = await this.#startRelay({ stopAt: step });
    const there = relay.anyLine((line) => line === `at ${step}`);
    let isThere = false;
    void there.then(() => {
      isThere = true;
    });
    // The other relay may take rows away.
    while (!isThere) await this.#transaction();
    await there;
    if (victim === "relay") await this.#endRelay(relay);
    if (victim === "server") await this.#server?.kill();
    if (victim === "Postgres") await this.#postgres.kill();
    // It notices, if it lives, while the other is down.
    if (victim !== "relay") relay.process.stdin?.write("go\n");
    if (victim === "server") await this.#startServer();
    if (victim === "Postgres") await this.#postgres.start();
    await Promise.all([this.#transaction(), this.#transaction(), this.#transaction()]);
    await this.#closeLate();
    if (victim !== "relay") await this.#endRelay(relay);
  }

  async verdict(): Promise<Verdict> {
    const { database } = this.#postgres;
    const count = "SELECT count(*) AS waiting FROM codeq_outbox";
    const deadlineMs = performance.now() + emptyWithinMs;
    const isEmpty = async () => Number((await database.query(count))[0]?.["waiting"]) === 0;
    let empty = await isEmpty();
    while (!empty && performance.now() < deadlineMs) empty = await isEmpty();
    const orders = (await database.query("SELECT id FROM orders")).map(({ id }) => Number(id));
    const tasks = await this.#tasks();
    const problems = judge({
      orders: new Set(orders),
      committed: this.#committed,
      rolledBack: this.#rolledBack,
      tasks,
    });
    if (!empty) problems.push("rows are left in the outbox");
    return {
      committed: orders.length,
      rolledBack: this.#rolledBack.size,
      late: this.#lateCount,
      tasks: tasks.length,
      problems,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#late?.tx.end().catch(() => {});
    await Promise.all(this.#relays.map((relay) => relay.kill()));
    await this.#server?.kill();
    await this.#postgres.dispose();
    this.#directory.dispose();
  }

  /** The orders of all tasks of the server. */
  async #tasks(): Promise<number[]> {
    await using client = codeq({ url: this.#server?.url });
    const orders: number[] = [];
    for await (const { payload = "" } of client.admin.tasks({ command: sendMail.name })) {
      orders.push(JSON.parse(payload).order);
    }
    return orders;
  }

  async #transaction(): Promise<void> {
    this.#orders += 1;
    const order = this.#orders;
    try {
      const tx = await this.#begin(order);
      const isUndone = order % rollbackEvery === 0;
      await tx.query(isUndone ? "ROLLBACK" : "COMMIT");
      (isUndone ? this.#rolledBack : this.#committed).add(order);
      await tx.end();
    } catch {
      // Postgres was killed; the table of orders says whether the commit happened.
    }
  }

  async #begin(order: number): Promise<pg.Client> {
    const tx = await this.#postgres.database.client();
    await tx.query("BEGIN");
    await tx.query("INSERT INTO orders VALUES ($1)", [order]);
    await outbox.enqueue(tx, sendMail, { order });
    return tx;
  }

  /** Its rows have lower numbers than those that are delivered before it commits. */
  async #openLate(): Promise<void> {
    this.#orders += 1;
    const order = this.#orders;
    this.#late = { tx: await this.#begin(order), order };
  }

  async #closeLate(): Promise<void> {
    if (this.#late === undefined) return;
    const { tx, order } = this.#late;
    this.#late = undefined;
    try {
      await tx.query("COMMIT");
      this.#committed.add(order);
      this.#lateCount += 1;
      await tx.end();
    } catch {
      // It was open when Postgres was killed.
    }
  }

  async #startServer(): Promise<void> {
    const [port, worker, producer] = this.#ports;
    const env = {
      PORT: `${port}`,
      WORKER_STREAM_ADDR: `127.0.0.1:${worker}`,
      PRODUCER_STREAM_ADDR: `127.0.0.1:${producer}`,
    };
    this.#server = await startServer({ dataDir: join(this.#directory.path, "data"), env });
  }

  async #startRelay(more: Pick<RelayChildOptions, "stopAt">): Promise<Child> {
    const options: RelayChildOptions = {
      databaseUrl: this.#postgres.database.url,
      url: `http://127.0.0.1:${this.#ports[0]}`,
      bug: this.#bug,
      ...more,
    };
    const program = join(import.meta.dirname, "relay-child.ts");
    const args = ["--conditions=source", program, JSON.stringify(options)];
    const relay = new Child(spawn(process.execPath, args, { cwd: root, stdio: "pipe" }));
    this.#relays.push(relay);
    await relay.anyLine((line) => line === "ready");
    return relay;
  }

  async #endRelay(relay: Child): Promise<void> {
    this.#relays = this.#relays.filter((each) => each !== relay);
    await relay.kill();
  }
}

/** A relay that has trouble tries again within seconds; this only names a campaign that hangs. */
const emptyWithinMs = 60_000;

export interface Ledger {
  /** Rows of the application's own table. */
  readonly orders: ReadonlySet<number>;
  readonly committed: ReadonlySet<number>;
  readonly rolledBack: ReadonlySet<number>;
  /** The order of every task; one that is there twice is a duplicate. */
  readonly tasks: readonly number[];
}

/** What is wrong with the tasks of a server. */
export function judge({ orders, committed, rolledBack, tasks }: Ledger): string[] {
  const found = new Set(tasks);
  const seen = new Set<number>();
  const twice = tasks.filter((order) => seen.has(order) || !seen.add(order));
  const some = (what: string, list: readonly number[]): string[] =>
    list.length === 0 ? [] : [`${what}: ${list.slice(0, 10).join(", ")} (${list.length})`];
  return [
    ...some(
      "committed without a task",
      [...orders].filter((order) => !found.has(order)),
    ),
    ...some(
      "a task without a commit",
      [...found].filter((order) => !orders.has(order)),
    ),
    ...some("several tasks for one commit", twice),
    ...some(
      "acknowledged commits that are gone",
      [...committed].filter((order) => !orders.has(order)),
    ),
    ...some(
      "rolled back, but there",
      [...rolledBack].filter((order) => orders.has(order)),
    ),
  ];
}
