/** A real Postgres with a data directory of its own, which can be killed and started again on the same port. */
import { execFileSync, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { migrationSql } from "../../packages/outbox/src/index.ts";
import { freePortRows } from "../cluster/free-ports.ts";
import { Child, temporaryDirectory } from "../e2e/server-process.ts";
import { asUser, postgresBinaries } from "./postgres-binary.ts";

const got = postgresBinaries();
/** Why there are no tests with Postgres here, as the option of a test; false where there are. */
export const noPostgres: string | false = "missing" in got ? got.missing : false;

export class PostgresServer {
  readonly #binaries: string;
  readonly #directory: { readonly path: string; dispose(): void };
  readonly #port: number;
  #child: Child | undefined;
  #databases = 0;

  private constructor(
    binaries: string,
    port: number,
    directory: { readonly path: string; dispose(): void },
  ) {
    this.#binaries = binaries;
    this.#port = port;
    this.#directory = directory;
  }

  /** A running server; its first database has the tables of the outbox. */
  static async open(): Promise<PostgresServer> {
    if ("missing" in got) throw new Error(got.missing);
    const [port = 0] = await freePortRows(1, 1);
    const server = new PostgresServer(got.path, port, temporaryDirectory());
    server.#initialise();
    await server.start();
    await server.database.query(migrationSql());
    return server;
  }

  /** The first database of the server. */
  get database(): PostgresDatabase {
    return new PostgresDatabase(this.#urlOf("postgres"));
  }

  /** Another database with the tables of the outbox. */
  async newDatabase(): Promise<PostgresDatabase> {
    this.#databases += 1;
    const name = `test_${this.#databases}`;
    await this.database.query(`CREATE DATABASE ${name} TEMPLATE template0`);
    const database = new PostgresDatabase(this.#urlOf(name));
    await database.query(migrationSql());
    return database;
  }

  #urlOf(name: string): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/${name}`;
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    const [command = "", ...args] = [
      ...asUser,
      join(this.#binaries, "postgres"),
      ...["-D", this.#data, "-p", `${this.#port}`, "-k", ""],
      ...["-c", "shared_buffers=32MB", "-c", "listen_addresses=127.0.0.1"],
    ];
    const child = new Child(spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] }));
    this.#child = child;
    const ended = child.exited.then(({ stderr }) => {
      throw new Error(`Postgres ended: ${stderr}`);
    });
    await Promise.race([child.errorText("ready to accept connections"), ended]);
  }

  /** Ends all of its processes as a crash would. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    const pids = childrenOf(child.pid);
    const killed = child.kill();
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It noticed the end of its parent.
      }
    }
    await killed;
  }

  async dispose(): Promise<void> {
    await this.kill();
    this.#directory.dispose();
  }

  get #data(): string {
    return join(this.#directory.path, "data");
  }

  #initialise(): void {
    const [command = "", ...args] = [
      ...asUser,
      join(this.#binaries, "initdb"),
      ...["-D", this.#data, "-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions"],
      ...["--locale=C", "--encoding=UTF8"],
    ];
    execFileSync(command, args, { stdio: "pipe" });
  }
}

export class PostgresDatabase {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  /** Several statements are possible. */
  async query(statement: string): Promise<Record<string, unknown>[]> {
    const client = await this.client();
    try {
      return (await client.query(statement)).rows;
    } finally {
      await client.end();
    }
  }

  async client(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.url });
    // Postgres may be killed while the client is idle.
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  /** Rolls back when the function throws. */
  async transaction<T>(run: (tx: pg.Client) => Promise<T>): Promise<T> {
    const tx = await this.client();
    try {
      await tx.query("BEGIN");
      const result = await run(tx);
      await tx.query("COMMIT");
      return result;
    } finally {
      await tx.end();
    }
  }
}

function childrenOf(parent: number): number[] {
  const isChild = (pid: string): boolean => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === parent;
    } catch {
      // It has ended meanwhile.
      return false;
    }
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && isChild(name))
    .map(Number);
}
