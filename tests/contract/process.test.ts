/** Contract 13, O2, O3 and O10, with the server as a process of its own. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import {
  endOfServer,
  type ServerOptions,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";

async function setup(
  t: TestContext,
  options: Partial<ServerOptions> & { readonly file?: string } = {},
): Promise<{ server: ServerProcess; dataDir: string }> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = options.dataDir ?? join(directory.path, "data");
  const env: Record<string, string | undefined> = { ...options.env };
  if (options.file !== undefined) {
    const path = join(directory.path, "config.yaml");
    writeFileSync(path, options.file.replace("$DATA", dataDir));
    env["CODEQ_CONFIG_PATH"] = path;
    env["CODEQ_DATA_DIR"] = undefined;
  }
  const server = await startServer({ ...options, dataDir, env });
  t.after(() => server.kill());
  return { server, dataDir };
}

function send(
  server: ServerProcess,
  path: string,
  token: string,
  body?: object,
): Promise<Response> {
  return fetch(`${server.url}/v1/codeq${path}`, {
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
}

interface Wire {
  readonly [field: string]: unknown;
}

async function bodyOf(reply: Response): Promise<Wire> {
  return (await reply.json()) as Wire;
}

test("O2: a file with maps for stores and tokens is understood", async (t) => {
  const file = [
    "persistenceProvider: pebble",
    "persistenceConfig:",
    "  path: $DATA",
    "  fsyncOnCommit: true",
    "  numShards: 1",
    "producerAuthProvider: static",
    "producerAuthConfig:",
    "  token: from-the-file",
    "  subject: shop",
    "  raw: { role: ADMIN, tenantId: acme }",
    "workerAuthConfig:",
    "  token: worker-from-the-file",
    "  subject: worker-1",
    "  scopes: [codeq:claim, codeq:result]",
    "  eventTypes: [render]",
    "  raw: { tenantId: acme }",
  ].join("\n");
  const { server, dataDir } = await setup(t, { file });
  const created = await send(server, "/tasks", "from-the-file", { command: "render", payload: 1 });
  assert.equal(created.status, 202);
  assert.equal((await bodyOf(created))["tenantId"], "acme");
  const claimed = await send(server, "/tasks/claim", "worker-from-the-file", {});
  assert.equal(claimed.status, 200);
  assert.equal((await send(server, "/tasks/x", "dev-token")).status, 401);
  const health = await bodyOf(await fetch(`${server.url}/healthz`));
  const { status, storage, durability } = health;
  assert.deepEqual(
    { status, storage, durability },
    { status: "ok", storage: "open", durability: "fsync" },
  );
  assert.ok(existsSync(join(dataDir, "log")));
});

test("O3: the environment can set what the older server ignored there", async (t) => {
  const auth = (token: string) => ({
    token,
    subject: "acme",
    scopes: ["codeq:claim"],
    eventTypes: ["*"],
  });
  const { server } = await setup(t, {
    env: {
      ENV: "prod",
      TIMEZONE: "Asia/Kolkata",
      LOG_LEVEL: "debug",
      LOG_FORMAT: "json",
      DEFAULT_LEASE_SECONDS: "7",
      REQUEUE_INSPECT_LIMIT: "5",
      MAX_ATTEMPTS_DEFAULT: "3",
      WEBHOOK_HMAC_SECRET: "long and random",
      PRODUCER_AUTH_CONFIG: JSON.stringify({ ...auth("p"), scopes: [] }),
      WORKER_AUTH_CONFIG: JSON.stringify(auth("w")),
    },
  });
  const task = await bodyOf(await send(server, "/tasks", "p", { command: "render", payload: 1 }));
  assert.match(String(task["createdAt"]), /\+05:30$/);
  assert.equal(task["maxAttempts"], 3);
  const claimed = await bodyOf(await send(server, "/tasks/claim", "w", {}));
  const leaseMs =
    Date.parse(String(claimed["leaseUntil"])) - Date.parse(String(claimed["updatedAt"]));
  assert.ok(leaseMs > 6000 && leaseMs <= 7000, String(leaseMs));
  assert.equal((await send(server, "/admin/queues", "p")).status, 401);
  const roleOnly = await fetch(`${server.url}/v1/codeq/admin/queues`, {
    headers: { authorization: "Bearer p", "x-role": "ADMIN" },
  });
  assert.equal(roleOnly.status, 401);
  await server.anyLine((line) => line.includes('"level":"debug"'));
});

test("O5, O6: without any configuration the development token produces and works in one tenant", async (t) => {
  const { server } = await setup(t);
  const created = await bodyOf(
    await send(server, "/tasks", "dev-token", { command: "hello", payload: { name: "world" } }),
  );
  assert.equal(created["tenantId"], "dev-tenant");
  const claimed = await bodyOf(await send(server, "/tasks/claim", "dev-token", {}));
  assert.equal(claimed["id"], created["id"]);
  const result = { status: "COMPLETED", result: { ok: true } };
  const done = await send(server, `/tasks/${created["id"]}/result`, "dev-token", result);
  assert.equal(done.status, 200);
  assert.equal((await send(server, "/admin/queues", "dev-token")).status, 200);
  assert.equal((await send(server, "/tasks", "other-token", { command: "x" })).status, 401);
});

test("S2: a server that is not for development does not start with the development token", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  for (const auth of [undefined, "dev-token"]) {
    const { code, stderr } = await endOfServer({
      dataDir: join(directory.path, "data"),
      env: {
        ENV: "production",
        WEBHOOK_HMAC_SECRET: "long and random",
        PRODUCER_AUTH_CONFIG: auth,
        WORKER_AUTH_CONFIG: auth,
      },
    });
    assert.equal(code, 2);
    const problem = auth === undefined ? "no tokens are configured" : "the development token";
    assert.ok(stderr.includes(problem), stderr);
  }
  assert.equal(existsSync(join(directory.path, "data")), false);
});

test("O10: a signal ends long polls and a restart has everything", async (t) => {
  const { server, dataDir } = await setup(t);
  const waiting = send(server, "/tasks/claim", "dev-token", {
    commands: ["never"],
    waitSeconds: 30,
  });
  const ids: unknown[] = [];
  for (let n = 0; n < 20; n += 1) {
    const created = await send(server, "/tasks", "dev-token", { command: "render", payload: n });
    ids.push((await bodyOf(created))["id"]);
  }
  const exit = server.stop();
  assert.equal((await waiting).status, 204);
  const { code, stdout } = await exit;
  assert.equal(code, 0);
  assert.ok(stdout.includes('"stopped"'), stdout);
  const { server: again } = await setup(t, { dataDir });
  for (const [n, id] of ids.entries()) {
    const task = await bodyOf(await send(again, `/tasks/${id}`, "dev-token"));
    assert.equal(task["payload"], String(n));
  }
  const stats = await bodyOf(await send(again, "/admin/queues/render", "dev-token"));
  assert.equal(stats["ready"], 20);
  assert.equal((await again.stop()).code, 0);
});
