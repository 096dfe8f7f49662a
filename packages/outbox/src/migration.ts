/** The tables of the outbox. The statements can be run again; they change nothing that is there. */

const tables = `-- Tasks that wait for the relay. The relay deletes a row when the server has stored its task.
CREATE TABLE IF NOT EXISTS codeq_outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), -- the idempotency key of the task
  seq bigint GENERATED ALWAYS AS IDENTITY,       -- the order of rows; never used as a cursor
  command text NOT NULL,                         -- the name of the task
  payload json NOT NULL DEFAULT 'null',          -- sent as it is, byte for byte
  options json NOT NULL DEFAULT '{}',            -- priority, runAtMs, tags and so on
  created_at timestamptz NOT NULL DEFAULT now(),
  refused_at timestamptz,                        -- when the server refused the task, and why
  error_code text,
  error text
);
CREATE INDEX IF NOT EXISTS codeq_outbox_waiting ON codeq_outbox (seq) WHERE refused_at IS NULL;

-- Tasks whose effect on this database has happened.
CREATE TABLE IF NOT EXISTS codeq_once (
  task_id text NOT NULL,
  step text NOT NULL DEFAULT '',
  fencing_token bigint NOT NULL,
  done_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (task_id, step)
);
CREATE INDEX IF NOT EXISTS codeq_once_done_at ON codeq_once (done_at);
`;

const notifications = `
-- Wakes the relays when a transaction with new rows commits.
CREATE OR REPLACE FUNCTION codeq_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('codeq_outbox', '');
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER codeq_outbox_notify AFTER INSERT ON codeq_outbox
  FOR EACH STATEMENT EXECUTE FUNCTION codeq_outbox_notify();
`;

/**
 * The SQL that creates the tables `codeq_outbox` and `codeq_once`, for Postgres 14 and later. Put it into a
 * migration of your application; `codeq outbox sql` prints the same text.
 *
 * ```ts
 * await pool.query(migrationSql());
 * ```
 */
export function migrationSql({
  notify = true,
}: {
  /** Whether commits wake the relays. Without it, relays find new rows when they poll. */
  readonly notify?: boolean | undefined;
} = {}): string {
  return notify ? tables + notifications : tables;
}
