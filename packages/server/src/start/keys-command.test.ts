import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { SimClock, SimRandom } from "../../../simulated/src/index.ts";
import { type LoadedConfig, loadConfig } from "../config/load.ts";
import type { AuditRecord } from "../edge/audit/audit-record.ts";
import type { AuditTrail } from "../edge/audit/audit-trail.ts";
import { type CommandEnd, runKeysCommand, withApiKeys } from "./keys-command.ts";

type Keys = (...argv: readonly string[]) => Promise<CommandEnd>;

interface Setup {
  readonly keys: Keys;
  readonly clock: SimClock;
  readonly records: () => Promise<readonly AuditRecord[]>;
}

async function setup(t: TestContext): Promise<Setup> {
  const directory = await mkdtemp(join(tmpdir(), "codeq-offline-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const clock = new SimClock({ wallMs: Date.UTC(2026, 0, 2, 3, 4, 5) });
  const random = new SimRandom(1);
  const parts = { clock, randomBytes: (into: Uint8Array): void => random.bytes(into) };
  const load = (argv: readonly string[]): LoadedConfig =>
    loadConfig({ argv, env: { CODEQ_DATA_DIR: directory }, readFile: () => "" });
  const keys: Keys = (...argv) => runKeysCommand(argv, { ...parts, loadConfig: load });
  const records = async (): Promise<readonly AuditRecord[]> => {
    const loaded = load([]);
    assert.ok(loaded.ok);
    const all = { tenantId: undefined, fromMs: undefined, toMs: undefined, action: undefined };
    const query = { ...all, outcome: undefined, after: "", limit: 100 };
    const list = ({ audit }: { audit: AuditTrail }) => audit.list(query);
    return (await withApiKeys(loaded.config, parts, list)).records;
  };
  return { keys, clock, records };
}

test("keys are created, listed and revoked, one JSON object per line", async (t) => {
  const { keys, clock } = await setup(t);
  const who = ["--tenant", "acme", "--name=ci", "--scopes=codeq:claim,codeq:nack"];
  const made = await keys(
    "create",
    ...who,
    "--event-types",
    "Render,print",
    "--expires-in-seconds=9",
  );
  assert.deepEqual([made.code, made.problem], [0, ""]);
  const { token, ...key } = JSON.parse(made.output);
  assert.ok(token.startsWith(`${key.id}_`));
  assert.deepEqual(key, {
    id: key.id,
    name: "ci",
    tenantId: "acme",
    role: "none",
    scopes: ["codeq:claim", "codeq:nack"],
    eventTypes: ["Render", "print"],
    createdAt: "2026-01-02T03:04:05Z",
    createdBy: "offline",
    expiresAt: "2026-01-02T03:04:14Z",
  });
  await clock.advance(1);
  const root = await keys("create", "--tenant=globex", "--name=root", "--role=operator");
  const { token: _, ...other } = JSON.parse(root.output);
  const lines = (...values: unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`);
  assert.equal((await keys("list")).output, lines(key, other).join(""));
  assert.equal((await keys("list", "--tenant=globex")).output, lines(other).join(""));
  assert.equal((await keys("revoke", key.id)).output, lines(key).join(""));
  assert.equal((await keys("list")).output, lines(other).join(""));
});

test("what is done offline stands in the audit trail", async (t) => {
  const { keys, records } = await setup(t);
  const made = await keys("create", "--tenant=acme", "--name=ci", "--role=admin");
  const { id } = JSON.parse(made.output);
  await keys("revoke", id);
  const told = (await records()).map(({ action, target, tenantId, subject, homeTenantId }) => ({
    action,
    target,
    tenantId,
    subject,
    homeTenantId,
  }));
  const common = { target: id, tenantId: "acme", subject: "offline", homeTenantId: "" };
  const [first, second] = ["create_api_key", "revoke_api_key"];
  assert.deepEqual(
    told.toSorted((a, b) => (a.action < b.action ? -1 : 1)),
    [
      { action: first, ...common },
      { action: second, ...common },
    ],
  );
});

test("what cannot be done is said, with what to do instead", async (t) => {
  const { keys } = await setup(t);
  const nowhere = await keys("list");
  assert.equal(nowhere.code, 4);
  assert.match(nowhere.problem, /there is no data in .*; set the data directory with --data-dir/);
  assert.equal((await keys("revoke", "cq_x")).code, 4);
  assert.equal((await keys("create", "--tenant=acme", "--name=x", "--role=admin")).code, 0);
  const create = ["create", "--tenant=acme", "--name=x"];
  for (const [argv, code, text] of [
    [["create", "--name=x", "--scopes=codeq:claim"], 2, /--tenant is missing or invalid/],
    [["create", "--tenant=ACME", "--name=x"], 2, /--tenant is missing or invalid/],
    [["create", "--tenant=acme", "--scopes=codeq:claim"], 1, /invalid 'name'/],
    [[...create, "--scopes=claim"], 1, /invalid 'scopes' \(of codeq:create,/],
    [[...create, "--role=root"], 1, /invalid 'role'/],
    [[...create, "--role=admin", "--expires-in-seconds=soon"], 1, /invalid 'expiresInSeconds'/],
    [[...create, "--role=admin", "--expires-at=soon"], 1, /invalid 'expiresAt'/],
    [[...create, "--role"], 1, /needs scopes or a role/],
    [[...create, "--nmae=x"], 2, /--nmae/],
    [["list", "--tenant=ACME"], 2, /invalid --tenant/],
    [["revoke"], 2, /the id of a key is needed/],
    [["revoke", "cq_nothing"], 1, /API key not found/],
    [["rotate"], 2, /unknown command: keys rotate/],
    [["list", "--persistence-provider=memory"], 4, /there is no data/],
    [[...create, "--persistence-provider=memory"], 4, /there is no data directory/],
  ] as const) {
    const end = await keys(...argv);
    assert.deepEqual([end.code, end.output], [code, ""], `${argv.join(" ")}: ${end.problem}`);
    assert.match(end.problem, text);
  }
  assert.equal((await keys("list")).output.split("\n").length, 2, "nothing was made");
  for (const argv of [[], ["--help"], ["-h"]]) {
    const help = await keys(...argv);
    assert.deepEqual([help.code, help.problem], [0, ""]);
    assert.match(help.output, /keys create --tenant T/);
  }
});
