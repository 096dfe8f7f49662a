/**
 * Moves committed rows to the server. A row is deleted in the transaction that locked it, after the server has
 * acknowledged its task; the idempotency key of the task is the id of the row. So a relay, the server or Postgres
 * may end at any moment: the row is there and is sent again, or it is gone and the task is stored, once.
 *
 *   waiting    its transaction has committed; leaves by an acknowledgement (deleted) or a refusal
 *   refused    the server will never accept it as it is; kept with its error until an operator retries or deletes it
 *
 * Rows are found by what is there, not by a position in a sequence, because a transaction that commits late has
 * lower numbers than rows that are gone already.
 */
import { type Client, CodeqError, type Duration } from "@codeq/client";
import {
  type CreateFields,
  createStored,
  errors,
  messageOf,
  producer,
  type Runtime,
  systemRuntime,
  toMs,
} from "@codeq/client/outbox";
import { connect, type Database, type DatabaseUrl, databaseError } from "./database.ts";
import { type OutboxStatus, readStatus } from "./status.ts";

/** A row that the server refused. It stays in the table with its error. */
export interface RefusedRow {
  readonly id: string;
  /** The name of the task. */
  readonly command: string;
  /** The code of the refusal. */
  readonly code: string;
  /** What the server said. */
  readonly message: string;
}

/** What a relay reports. */
export interface RelayListeners {
  /** The server has stored this number of tasks, and their rows are deleted. */
  readonly delivered?: ((tasks: number) => void) | undefined;
  readonly refused?: ((row: RefusedRow) => void) | undefined;
  /** Postgres or the server cannot be used; the relay tries again. Default: a process warning. */
  readonly trouble?: ((error: CodeqError) => void) | undefined;
  /** The relay works, for the first time or again after trouble. */
  readonly ready?: (() => void) | undefined;
}

/** Where rows come from, where tasks go, and how. */
export interface RelayOptions {
  /** Creates the tasks; the relay does not close it. */
  readonly client: Client;
  /** The address of the database, such as `postgres://user:password@host/database`, or a function that gives it. */
  readonly databaseUrl: DatabaseUrl;
  /**
   * Creates the tasks one by one, in the order of their rows. Only one relay of the database works then; others
   * wait until it ends. Default: false.
   */
  readonly ordered?: boolean | undefined;
  /** Rows of one transaction: 1 to 1000. Default: 500. */
  readonly batch?: number | undefined;
  /** How often to look for rows when no commit wakes the relay. Default: `"1s"`. */
  readonly poll?: Duration | undefined;
  /** How long entries of `outbox.once` are kept. Default: `"90d"`. */
  readonly keepOnce?: Duration | undefined;
  /** What to call when something happens. */
  readonly on?: RelayListeners | undefined;
}

interface Row {
  readonly id: string;
  readonly command: string;
  readonly payload: string;
  readonly options: string;
}

type Outcome =
  | { readonly is: "delivered"; readonly id: string }
  | { readonly is: "refused"; readonly row: RefusedRow }
  | { readonly is: "left"; readonly error: CodeqError };

const batchDefault = 500;
const batchMax = 1000;
/** The most bytes of payloads in one transaction; the first row is taken whatever its size is. */
const batchBytesMax = 8 * 1024 * 1024;
/** While rows are locked; the client keeps trying to reach the server for so long. */
const sendMs = 5_000;
const errorCharsMax = 4096;
const cleanEveryMs = 3_600_000;
const cleanMax = 10_000;

/** One lock for each table; the number keeps it apart from locks of the application. */
const lockKey = "4862718349023150080 + 'codeq_outbox'::regclass::oid::bigint";

/**
 * Starts a relay in this process. Any number of relays may work on one database.
 *
 * ```ts
 * const relay = startRelay({ client, databaseUrl: "postgres://localhost/shop" });
 * process.once("SIGTERM", () => void relay.close());
 * ```
 */
export function startRelay(options: RelayOptions): Relay {
  return new Relay(options, systemRuntime);
}

/** Made by `startRelay`. */
export class Relay implements AsyncDisposable {
  readonly #options: RelayOptions;
  readonly #runtime: Runtime;
  readonly #batch: number;
  readonly #pollMs: number;
  readonly #keepOnceMs: number;
  /** Resolves when the relay has ended. */
  readonly done: Promise<void>;
  #database: Database | undefined;
  #isClosing = false;
  #isWoken = false;
  #wakeUp: () => void = () => {};
  #cleanedAtMs = Number.NEGATIVE_INFINITY;

  /** @internal Use `startRelay`. */
  constructor(options: RelayOptions, runtime: Runtime) {
    this.#options = options;
    this.#runtime = runtime;
    this.#batch = options.batch ?? batchDefault;
    if (!Number.isInteger(this.#batch) || this.#batch < 1 || this.#batch > batchMax) {
      const text = `invalid batch ${options.batch}: a whole number from 1 to ${batchMax}`;
      throw new CodeqError("invalid_option", text);
    }
    this.#pollMs = toMs(options.poll ?? "1s", "poll");
    this.#keepOnceMs = toMs(options.keepOnce ?? "90d", "keepOnce");
    this.done = this.#run();
  }

  /** Counts the rows of the outbox; rejects while Postgres cannot be reached. */
  async status(): Promise<OutboxStatus> {
    if (this.#database === undefined) {
      throw new CodeqError("unavailable", "the relay has no connection to Postgres");
    }
    return await readStatus(this.#database);
  }

  /** Ends the relay after the transaction that it is in. */
  close(): Promise<void> {
    this.#isClosing = true;
    this.#wake();
    return this.done;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #run(): Promise<void> {
    let tries = 0;
    const works = (): void => {
      if (tries !== 1) this.#options.on?.ready?.();
      tries = 1;
    };
    while (!this.#isClosing) {
      try {
        await this.#session(works);
      } catch (error) {
        this.#trouble(databaseError(error));
        tries = Math.max(tries, 1) + 1;
        await this.#pause(this.#runtime.pauseMs(tries - 1));
      }
    }
  }

  /** Works with one connection until it breaks or the relay is closed. */
  async #session(works: () => void): Promise<void> {
    const database = await connect(this.#options.databaseUrl, () => this.#wake());
    database.on("notification", () => this.#wake());
    this.#database = database;
    try {
      await database.query("LISTEN codeq_outbox");
      if (!(await this.#lock(database))) return;
      works();
      let troubles = 0;
      while (!this.#isClosing) {
        this.#isWoken = false;
        const { taken, left } = await this.#deliver(database);
        if (left !== undefined) {
          this.#trouble(left);
          troubles += 1;
          await this.#pause(this.#runtime.pauseMs(troubles));
          continue;
        }
        if (troubles > 0) this.#options.on?.ready?.();
        troubles = 0;
        if (taken === 0) await this.#sleep(database);
      }
    } finally {
      this.#database = undefined;
      // The connection may be broken, or a statement of it may hang.
      database.end().catch(() => {});
    }
  }

  /** Relays share the lock; a relay of the ordered mode has it alone. */
  async #lock(database: Database): Promise<boolean> {
    const kind = this.#options.ordered === true ? "" : "_shared";
    while (!this.#isClosing) {
      const { rows } = await database.query(
        `SELECT pg_try_advisory_lock${kind}(${lockKey}) AS got`,
      );
      if (rows[0].got === true) return true;
      this.#isWoken = false;
      await this.#rest(this.#pollMs);
    }
    return false;
  }

  /**
   * One transaction: takes rows that no other relay has, and waits for what the server says about them. New rows wait for
   * its end, so it has two round trips and does not wait for the disk of Postgres: a deletion that is lost with
   * Postgres brings the row back, and its task is created once.
   */
  async #deliver(
    database: Database,
  ): Promise<{ readonly taken: number; readonly left: CodeqError | undefined }> {
    const rows = await this.#take(database);
    const outcomes = await this.#send(rows);
    const delivered = outcomes.flatMap((each) => (each.is === "delivered" ? [each.id] : []));
    const refused = outcomes.flatMap((each) => (each.is === "refused" ? [each.row] : []));
    const left = outcomes.find((each) => each.is === "left");
    if (refused.length > 0) await database.query(keepErrors, [JSON.stringify(refused)]);
    await database.query(`${delivered.length > 0 ? deleteRows(delivered) : ""}COMMIT`);
    const { on } = this.#options;
    if (delivered.length > 0) on?.delivered?.(delivered.length);
    for (const row of refused) on?.refused?.(row);
    return { taken: rows.length, left: left?.error };
  }

  async #take(database: Database): Promise<readonly Row[]> {
    // Postgres answers each of the statements.
    const answers: unknown = await database.query(begin + selectRows(this.#batch));
    return (answers as readonly { readonly rows: readonly Row[] }[]).at(-1)?.rows ?? [];
  }

  async #send(rows: readonly Row[]): Promise<Outcome[]> {
    if (this.#options.ordered !== true) return Promise.all(rows.map((row) => this.#sendRow(row)));
    const outcomes: Outcome[] = [];
    for (const row of rows) {
      const outcome = await this.#sendRow(row);
      outcomes.push(outcome);
      if (outcome.is === "left") break;
    }
    return outcomes;
  }

  async #sendRow(row: Row): Promise<Outcome> {
    const { id, command } = row;
    try {
      const fields = fieldsOf(row);
      await createStored(this.#options.client, fields, { timeoutMs: sendMs, signal: undefined });
      return { is: "delivered", id };
    } catch (thrown) {
      const error =
        thrown instanceof CodeqError
          ? thrown
          : new CodeqError("unavailable", messageOf(thrown), { cause: thrown });
      if (!concernsRow(error)) return { is: "left", error };
      // Postgres keeps no text with this character.
      const message = error.message.replaceAll("\0", "").slice(0, errorCharsMax);
      return { is: "refused", row: { id, command, code: error.code, message } };
    }
  }

  /** Returns when there may be rows: a commit, or a look once a second. */
  async #sleep(database: Database): Promise<void> {
    while (!this.#isWoken) {
      if (await this.#rest(this.#pollMs)) return;
      await this.#clean(database);
      const { rows } = await database.query(
        "SELECT EXISTS (SELECT FROM codeq_outbox WHERE refused_at IS NULL) AS found",
      );
      if (rows[0].found === true) return;
    }
  }

  /** Deletes old entries of `once`, now and then. */
  async #clean(database: Database): Promise<void> {
    const nowMs = this.#runtime.clock.monotonicMs();
    if (nowMs - this.#cleanedAtMs < cleanEveryMs) return;
    this.#cleanedAtMs = nowMs;
    await database.query(
      `DELETE FROM codeq_once WHERE (task_id, step) IN (
        SELECT task_id, step FROM codeq_once
        WHERE done_at < now() - $1::float8 * interval '1 ms' LIMIT ${cleanMax})`,
      [this.#keepOnceMs],
    );
  }

  /** Waits after trouble; new rows do not shorten it. */
  async #pause(ms: number): Promise<void> {
    const endMs = this.#runtime.clock.monotonicMs() + ms;
    while (!this.#isClosing) {
      const leftMs = endMs - this.#runtime.clock.monotonicMs();
      if (leftMs <= 0) return;
      this.#isWoken = false;
      await this.#rest(leftMs);
    }
  }

  /** True when something woke the relay before the time was over. */
  #rest(ms: number): Promise<boolean> {
    if (this.#isWoken || this.#isClosing) return Promise.resolve(true);
    return new Promise((resolve) => {
      const cancel = this.#runtime.clock.after(ms, () => resolve(false));
      this.#wakeUp = () => {
        cancel();
        resolve(true);
      };
    });
  }

  #wake(): void {
    this.#isWoken = true;
    this.#wakeUp();
  }

  #trouble(error: CodeqError): void {
    const { trouble } = this.#options.on ?? {};
    if (trouble === undefined) this.#runtime.warn(`CODEQ_${error.code}`, error.message);
    else trouble(error);
  }
}

/** Rows that are locked but too much for one transaction are released when it ends. */
const selectRows = (batch: number): string => `WITH taken AS (
  SELECT id, seq, command, payload::text AS payload, options::text AS options
  FROM codeq_outbox WHERE refused_at IS NULL ORDER BY seq LIMIT ${batch} FOR UPDATE SKIP LOCKED
), sized AS (
  SELECT *, sum(octet_length(payload)) OVER (ORDER BY seq) - octet_length(payload) AS before FROM taken
)
SELECT id, command, payload, options FROM sized WHERE before < ${batchBytesMax} ORDER BY seq`;

const begin = "BEGIN; SET LOCAL synchronous_commit = off; ";

/** The ids come from Postgres, which writes them as digits and hyphens. */
const deleteRows = (ids: readonly string[]): string =>
  `DELETE FROM codeq_outbox WHERE id = ANY('{${ids.join(",")}}'::uuid[]); `;

const keepErrors = `UPDATE codeq_outbox AS o
SET refused_at = clock_timestamp(), error_code = r.code, error = r.message
FROM json_to_recordset($1::text::json) AS r(id uuid, code text, message text) WHERE o.id = r.id`;

/** Other programs may write rows too, so the options are checked. */
function fieldsOf({ id, command, payload, options }: Row): CreateFields {
  const { seq: _seq, ...defaults } = producer.newCreateTask();
  const known: Readonly<Record<string, unknown>> = defaults;
  const given: unknown = JSON.parse(options);
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new CodeqError("invalid_option", "the options of the row are not a JSON object");
  }
  for (const [name, value] of Object.entries(given)) {
    if (Object.hasOwn(known, name) && isLike(known[name], value)) continue;
    const text = `the row has an unknown or invalid option: ${name} = ${JSON.stringify(value)}`;
    throw new CodeqError("invalid_option", text);
  }
  return { ...defaults, idempotencyKey: id, ...given, command, payload };
}

function isLike(example: unknown, value: unknown): boolean {
  if (Array.isArray(example)) {
    return Array.isArray(value) && value.every((each) => typeof each === "string");
  }
  if (typeof value === "number") {
    return typeof example !== "string" && Number.isSafeInteger(value) && value >= 0;
  }
  return typeof value === typeof example;
}

/** Refusals that depend on the token and not on the row; the rows wait until the token is right. */
const aboutToken: ReadonlySet<string> = new Set([
  "unauthenticated",
  "permission_denied",
  "missing_scope",
  "invalid_tenant",
  "operator_only",
  "read_only",
]);
const aboutRelay: ReadonlySet<string> = new Set(["closed", "not_codeq"]);

/** Whether the server will never accept the row as it is. */
function concernsRow({ code, retryable }: CodeqError): boolean {
  if (retryable || aboutToken.has(code) || aboutRelay.has(code)) return false;
  return !(Object.hasOwn(errors, code) && errors[code as keyof typeof errors].http === 401);
}
