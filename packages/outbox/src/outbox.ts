/**
 * The side of the application: both calls are one INSERT in the transaction of the caller, so a task exists if
 * and only if the transaction commits. No connection to the server is needed.
 */
import {
  CodeqError,
  type EnqueueOptions,
  type TaskContext,
  type TaskType,
  type Tracing,
} from "@codeq/client";
import {
  type CreateFields,
  createFields,
  passOn,
  payloadOf,
  producer,
  type Runtime,
  systemRuntime,
  type TaskDefinition,
} from "@codeq/client/outbox";

/**
 * Runs a statement with one parameter (`$1`, a text) in a transaction of a database library, and gives the rows
 * that it returns. There is one for each of the supported libraries, such as `@codeq/outbox/node-postgres`.
 */
export type OutboxAdapter<Tx> = (
  tx: Tx,
  statement: string,
  value: string,
) => Promise<readonly unknown[]>;

/** Which database library an outbox is for. */
export interface OutboxOptions<Tx> {
  /** The adapter of the library whose transactions are passed to the outbox. */
  readonly adapter: OutboxAdapter<Tx>;
  /** Hooks for a tracing library; the trace context travels with the row. */
  readonly tracing?: Tracing | undefined;
}

/**
 * What one task can have beside its input. `delay` counts from the call. The idempotency key is the id of the
 * row by default.
 */
export type OutboxEnqueueOptions = Omit<EnqueueOptions, "timeout" | "signal">;

/** What a task needs besides its input; a task without input needs none. */
export type OutboxEnqueueArguments<Input> = undefined extends Input
  ? [input?: Input, options?: OutboxEnqueueOptions]
  : [input: Input, options?: OutboxEnqueueOptions];

/** One of several tasks that are enqueued by one statement. */
export interface OutboxItem<Input> extends OutboxEnqueueOptions {
  /** What its handler gets. */
  readonly input: Input;
}

/** For tasks that change the database in several transactions. */
export interface OnceOptions {
  /** Names the transaction, so that each of them happens once. Default: `""`. */
  readonly step?: string | undefined;
}

const insertRows = `INSERT INTO codeq_outbox (id, command, payload, options)
SELECT id, command, payload::json, options::json
FROM json_to_recordset($1::text::json) AS r(id uuid, command text, payload text, options text)`;

const insertOnce = `INSERT INTO codeq_once (task_id, step, fencing_token)
SELECT task_id, step, fencing_token
FROM json_to_record($1::text::json) AS r(task_id text, step text, fencing_token bigint)
ON CONFLICT (task_id, step) DO NOTHING RETURNING task_id`;

/**
 * Makes an outbox for transactions of one database library.
 *
 * ```ts
 * import { createOutbox } from "@codeq/outbox";
 * import { drizzle } from "@codeq/outbox/drizzle";
 *
 * const outbox = createOutbox({ adapter: drizzle });
 * await db.transaction(async (tx) => {
 *   const [order] = await tx.insert(orders).values({ email }).returning();
 *   await outbox.enqueue(tx, sendMail, { orderId: order.id });
 * });
 * ```
 */
export function createOutbox<Tx>(options: OutboxOptions<Tx>): Outbox<Tx> {
  return new Outbox(options, systemRuntime);
}

/** Made by `createOutbox`. */
export class Outbox<Tx> {
  readonly #adapter: OutboxAdapter<Tx>;
  readonly #tracing: Tracing;
  readonly #runtime: Runtime;

  /** @internal Use `createOutbox`. */
  constructor({ adapter, tracing = passOn }: OutboxOptions<Tx>, runtime: Runtime) {
    this.#adapter = adapter;
    this.#tracing = tracing;
    this.#runtime = runtime;
  }

  /**
   * Writes a row for a task in the transaction. When the transaction commits, a relay creates the task; when it
   * rolls back, there is no task. Input and options are checked here. Resolves with the idempotency key of the task.
   *
   * ```ts
   * await outbox.enqueue(tx, sendMail, { orderId }, { delay: "10m" });
   * ```
   */
  async enqueue<Input, Output>(
    tx: Tx,
    task: TaskType<Input, Output>,
    ...[input, options = {}]: OutboxEnqueueArguments<NoInfer<Input>>
  ): Promise<string> {
    const [key] = await this.#insert(tx, definitionOf(task), [{ ...options, input }]);
    return key as string;
  }

  /** Writes the rows of several tasks with one statement. Resolves with their idempotency keys, in order. */
  enqueueMany<Input, Output>(
    tx: Tx,
    task: TaskType<Input, Output>,
    items: readonly OutboxItem<NoInfer<Input>>[],
  ): Promise<string[]> {
    return this.#insert(tx, definitionOf(task), items);
  }

  /**
   * For handlers that change the same database: true for the first transaction of a task that commits, and false
   * for all later ones, also in another attempt or on another worker. A handler that gets false has nothing left
   * to do. If two attempts run at the same time, the second waits until the first commits or rolls back.
   *
   * ```ts
   * const handler = charge.handle(async ({ account, cents }, ctx) => {
   *   await db.transaction(async (tx) => {
   *     if (!(await outbox.once(tx, ctx))) return;
   *     await tx.update(accounts).set({ cents: sql`cents - ${cents}` }).where(eq(accounts.id, account));
   *   });
   * });
   * ```
   */
  async once(
    tx: Tx,
    ctx: Pick<TaskContext, "id" | "fencingToken">,
    { step = "" }: OnceOptions = {},
  ): Promise<boolean> {
    const row = { task_id: ctx.id, step, fencing_token: ctx.fencingToken };
    const rows = await this.#adapter(tx, insertOnce, JSON.stringify(row));
    return rows.length === 1;
  }

  async #insert(
    tx: Tx,
    definition: TaskDefinition,
    items: readonly OutboxItem<unknown>[],
  ): Promise<string[]> {
    if (items.length === 0) return [];
    const payloads = await Promise.all(items.map(({ input }) => payloadOf(definition, input)));
    return this.#tracing.enqueue(definition.name, async (trace) => {
      const making = items.map(async ({ input: _input, ...options }, at) => {
        const id = uuidFrom(this.#runtime.uniqueId());
        const payload = payloads[at] as string;
        const fields = await createFields(definition, options, { payload, ownKey: id, trace });
        const delayMs = Number(fields.delayMs);
        if (fields.runAtMs === undefined && delayMs > 0) {
          fields.runAtMs = this.#runtime.clock.nowMs() + delayMs;
        }
        return { id, key: fields.idempotencyKey, fields };
      });
      const made = await Promise.all(making);
      const rows = made.map(({ id, fields }) => ({
        id,
        command: fields.command,
        payload: fields.payload,
        options: JSON.stringify(optionsOf(id, fields)),
      }));
      await this.#adapter(tx, insertRows, JSON.stringify(rows));
      return made.map(({ key }) => key);
    });
  }
}

/** What a column of its own says, and what is a default anyway, is left out. */
function optionsOf(id: string, fields: CreateFields): Partial<CreateFields> {
  const {
    command: _command,
    payload: _payload,
    delaySeconds: _delay,
    delayMs: _ms,
    ...options
  } = fields;
  const defaults: object = { ...producer.newCreateTask(), idempotencyKey: id };
  const isDefault = ([name, value]: readonly [string, unknown]): boolean =>
    JSON.stringify(value) === JSON.stringify(defaults[name as keyof typeof defaults]);
  return Object.fromEntries(Object.entries(options).filter((entry) => !isDefault(entry)));
}

function definitionOf<Input>({ definition }: TaskType<Input, unknown>): TaskDefinition {
  if (definition !== undefined) return definition;
  throw new CodeqError("invalid_option", 'this is not a task; make one: task("resize")');
}

/** A UUID of version 4 from 16 random bytes, written as Postgres writes it. */
function uuidFrom(base64url: string): string {
  const bytes = Buffer.from(base64url, "base64url");
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
