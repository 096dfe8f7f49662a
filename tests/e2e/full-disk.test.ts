/**
 * A disk that is really full. Writes are refused and leave nothing behind, reads go on, and room on
 * the disk is all that is needed to go on; no restart, and nothing lost over one.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { readDataDirectory } from "../crash/open-store.ts";
import { untilWritesAreTried } from "./accepting-writes.ts";
import { ApiClient, type Reply, type TaskJson } from "./api-client.ts";
import { endOfServer, type ServerProcess, startServer } from "./server-process.ts";
import { mebibyte, SmallFileSystem } from "./small-file-system.ts";

/** The log prepares its first segment with the first start. */
const segmentBytes = 64 * mebibyte;
const recoveryMsMax = 300_000;
const roundsWhileFull = campaignLength({ short: 2, long: 5 });
/** Nearly a mebibyte that cannot be compressed. */
const padding = randomBytes(786_000)
  .toString("base64")
  .slice(0, mebibyte - 1000);

interface Case {
  readonly bytes: number;
  readonly fillerBytes: number;
  readonly env: Readonly<Record<string, string>>;
}

/** Which creates were acknowledged and which were refused, by the number in their payload. */
class Ledger {
  readonly acknowledged: Map<number, string> = new Map();
  readonly refused: Set<number> = new Set();
  #last = 0;

  next(): number {
    this.#last += 1;
    return this.#last;
  }

  note(number: number, reply: Reply): void {
    if (reply.status === 202) {
      this.acknowledged.set(number, (JSON.parse(reply.text) as TaskJson).id);
      return;
    }
    assertRefusal(reply);
    this.refused.add(number);
  }
}

interface World {
  readonly files: SmallFileSystem;
  readonly dataDir: string;
  readonly ledger: Ledger;
  start(): Promise<Started>;
}

interface Started {
  readonly server: ServerProcess;
  readonly api: ApiClient;
}

/** Undefined when file systems cannot be mounted; the test is then skipped with the reason. */
function setup(t: TestContext, of: Case): World | undefined {
  const files = SmallFileSystem.mount(of.bytes);
  if (typeof files === "string") {
    t.skip(files);
    return undefined;
  }
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  stack.defer(() => files.unmount());
  const dataDir = join(files.path, "data");
  files.fill(of.fillerBytes);
  return {
    files,
    dataDir,
    ledger: new Ledger(),
    start: async () => {
      const server = await startServer({ dataDir, env: of.env });
      const api = new ApiClient(server.port);
      stack.defer(async () => {
        api.close();
        await server.kill();
      });
      return { server, api };
    },
  };
}

function assertRefusal(reply: Reply): void {
  assert.equal(reply.status, 507, reply.text);
  assert.deepEqual(Object.keys(JSON.parse(reply.text) as object), ["error"]);
  assert.match((JSON.parse(reply.text) as { error: string }).error, /disk is full/);
}

async function createOne(api: ApiClient, ledger: Ledger, contents = padding): Promise<Reply> {
  const number = ledger.next();
  const body = { command: "c", payload: { number, contents }, idempotencyKey: `key ${number}` };
  const reply = await api.create(body);
  ledger.note(number, reply);
  return reply;
}

/** Creates large tasks, several at a time, until one is refused. */
async function createUntilRefused(api: ApiClient, ledger: Ledger): Promise<void> {
  const client = async (): Promise<void> => {
    while (ledger.refused.size === 0) {
      await createOne(api, ledger);
      assert.ok(ledger.acknowledged.size < 300, "the disk does not become full");
    }
  };
  await Promise.all([client(), client(), client()]);
}

/** Asks until a write is taken again; while the server says that it refuses all of them, it is not asked. */
async function createUntilTaken({ server, api }: Started, ledger: Ledger): Promise<void> {
  const untilMs = performance.now() + recoveryMsMax;
  const isTaken = async (): Promise<boolean> => {
    await untilWritesAreTried(server, untilMs);
    return (await createOne(api, ledger, "small")).status === 202;
  };
  while (!(await isTaken())) {
    assert.ok(performance.now() < untilMs, "writes are refused although there is room");
  }
}

/** Everything that was acknowledged can be read; of many large tasks, one of so many. */
async function assertReadable(api: ApiClient, { acknowledged }: Ledger, every = 1): Promise<void> {
  for (const [number, id] of acknowledged) {
    if (number % every !== 0) continue;
    const reply = await api.get(`/tasks/${id}`);
    assert.equal(reply.status, 200, `task ${number}: ${reply.text}`);
    const { payload } = JSON.parse(reply.text) as TaskJson;
    assert.equal((JSON.parse(payload) as { number: number }).number, number);
  }
}

/** Exactly the acknowledged ones are waiting to be claimed. */
async function assertExactly(api: ApiClient, { acknowledged }: Ledger): Promise<void> {
  const { text } = await api.get("/admin/queues/c");
  assert.equal((JSON.parse(text) as { ready: number }).ready, acknowledged.size);
}

/** In the files, too, there is nothing of what was refused. */
async function assertOnDisk(dataDir: string, { acknowledged }: Ledger): Promise<void> {
  const { payloads, problems } = await readDataDirectory(dataDir);
  assert.deepEqual(problems, []);
  const numbers = [...payloads.values()].map(
    (payload) => (JSON.parse(payload) as { number: number }).number,
  );
  assert.deepEqual(
    numbers.sort((a, b) => a - b),
    [...acknowledged.keys()].sort((a, b) => a - b),
  );
}

/** The whole story, up to where the disk has room again and the server was restarted. */
async function liveThrough(world: World, whileFull?: (api: ApiClient) => Promise<void>) {
  const { ledger, dataDir } = world;
  const { server, api } = await world.start();
  await createUntilRefused(api, ledger);
  await assertReadable(api, ledger);
  await whileFull?.(api);
  world.files.empty();
  await createUntilTaken({ server, api }, ledger);
  await assertReadable(api, ledger);
  await assertExactly(api, ledger);
  await server.kill();
  const killed = await server.exited;
  const next = await world.start();
  // All of them are looked for in the files.
  await assertReadable(next.api, ledger, 5);
  await assertExactly(next.api, ledger);
  const exit = await next.server.stop();
  assert.equal(exit.code, 0, exit.stderr);
  await assertOnDisk(dataDir, ledger);
  return killed;
}

test("below the least free space writes are refused until there is more", async (t) => {
  const world = setup(t, {
    bytes: 170 * mebibyte,
    fillerBytes: 70 * mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: String(40 * mebibyte) },
  });
  if (world === undefined) return;
  const exit = await liveThrough(world, async (api) => {
    assert.equal((await api.page("/readyz")).status, 503);
    assert.equal((await api.page("/healthz")).status, 200);
    assertRefusal(await api.post("/tasks/claim", {}));
    assertRefusal(await api.post("/tasks/batch", { tasks: [{ command: "c", payload: 1 }] }));
    assert.equal((await api.page("/metrics")).status, 200);
  });
  assert.match(exit.stdout, /storage refuses writes.*bytes are left/);
  assert.match(exit.stdout, /storage accepts writes again/);
});

test("work in progress outlives a full disk", async (t) => {
  const world = setup(t, {
    bytes: 170 * mebibyte,
    fillerBytes: 70 * mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: String(40 * mebibyte) },
  });
  if (world === undefined) return;
  const { server, api } = await world.start();
  await api.create({ command: "work", payload: 1 });
  const claimed = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
  await createUntilRefused(api, world.ledger);
  const result = { status: "COMPLETED", result: { done: true } };
  assert.equal((await api.post(`/tasks/${claimed.id}/heartbeat`, {})).status, 200);
  assert.equal((await api.task(claimed.id))?.status, "IN_PROGRESS");
  // What ends a task may use the reserve.
  const submitted = await api.post(`/tasks/${claimed.id}/result`, result);
  assert.equal(submitted.status, 200, submitted.text);
  world.files.empty();
  await createUntilTaken({ server, api }, world.ledger);
});

test("an artifact for which there is no room is refused, and its task can still be finished", async (t) => {
  const world = setup(t, {
    bytes: segmentBytes + 30 * mebibyte,
    fillerBytes: mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: "0" },
  });
  if (world === undefined) return;
  const { api } = await world.start();
  await api.create({ command: "work", payload: 1 });
  const { id } = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
  assert.throws(() => world.files.fill(100 * mebibyte), { code: "ENOSPC" });
  const contentBase64 = Buffer.alloc(100_000).toString("base64");
  const result = { status: "COMPLETED", result: { done: true } };
  const artifacts = [{ name: "report.bin", contentBase64 }];
  assertRefusal(await api.post(`/tasks/${id}/result`, { ...result, artifacts }));
  assert.equal((await api.task(id))?.status, "IN_PROGRESS");
  assert.equal((await api.post(`/tasks/${id}/result`, result)).status, 200);
});

test("artifacts leave the room in which tasks can end", async (t) => {
  const reserveBytes = 40 * mebibyte;
  const world = setup(t, {
    bytes: segmentBytes + 150 * mebibyte,
    fillerBytes: mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: String(reserveBytes) },
  });
  if (world === undefined) return;
  const { server, api } = await world.start();
  await api.create({ command: "work", payload: 1 });
  const { id } = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
  const url = `${server.url}/v1/codeq/tasks/${id}/artifacts/large`;
  const headers = { authorization: "Bearer dev-token" };
  const body = Buffer.alloc(130 * mebibyte);
  const upload = await fetch(url, { method: "PUT", headers, body });
  assert.equal(upload.status, 507, await upload.text());
  assert.ok(world.files.freeBytes() > reserveBytes, `${world.files.freeBytes()} bytes are free`);
  const result = { status: "COMPLETED", result: { done: true } };
  assert.equal((await api.post(`/tasks/${id}/result`, result)).status, 200);
});

test("a store that runs out of room in the middle of a write recovers", async (t) => {
  const world = setup(t, {
    bytes: segmentBytes + 54 * mebibyte,
    fillerBytes: 30 * mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: "0" },
  });
  if (world === undefined) return;
  const exit = await liveThrough(world, async (api) => {
    // Attempts to write go on meanwhile; what was acknowledged stays readable through all of them.
    for (let round = 0; round < roundsWhileFull; round += 1) {
      await createOne(api, world.ledger);
      await assertReadable(api, world.ledger);
    }
  });
  assert.match(exit.stdout, /storage refuses writes.*key-value store/);
});

test("a log and a store that grow into the same last room recover, whichever meets the end", async (t) => {
  const world = setup(t, {
    bytes: segmentBytes + 200 * mebibyte,
    fillerBytes: 100 * mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: "0" },
  });
  if (world === undefined) return;
  const exit = await liveThrough(world);
  assert.match(exit.stdout, /storage refuses writes.*(key-value store|Writing to the log failed)/);
});

test("a record that is too large for what is left is refused, and smaller ones are not", async (t) => {
  const world = setup(t, {
    bytes: segmentBytes + 90 * mebibyte,
    fillerBytes: 30 * mebibyte,
    env: {
      CODEQ_MIN_FREE_DISK_BYTES: "0",
      CODEQ_BODY_BYTES_MAX: String(200 * mebibyte),
      CODEQ_PAYLOAD_BYTES_MAX: String(200 * mebibyte),
    },
  });
  if (world === undefined) return;
  const { ledger } = world;
  const { server, api } = await world.start();
  await createOne(api, ledger, "small");
  const huge = await createOne(api, ledger, "x".repeat(70 * mebibyte));
  assertRefusal(huge);
  await createUntilTaken({ server, api }, ledger);
  await assertReadable(api, ledger);
  await assertExactly(api, ledger);
  assert.match(server.stdout, /storage refuses writes.*log/);
  await server.kill();
  await assertOnDisk(world.dataDir, ledger);
});

test("a batch that meets a full disk half-way tells for each task what became of it", async (t) => {
  const world = setup(t, {
    bytes: segmentBytes + 200 * mebibyte,
    fillerBytes: 170 * mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: "0", CODEQ_BODY_BYTES_MAX: String(200 * mebibyte) },
  });
  if (world === undefined) return;
  const { ledger } = world;
  const { server, api } = await world.start();
  while (ledger.acknowledged.size < 20) await createOne(api, ledger);
  const numbers = Array.from({ length: 60 }, () => ledger.next());
  const tasks = numbers.map((number) => ({ command: "c", payload: { number, contents: padding } }));
  const reply = await api.post("/tasks/batch", { tasks });
  assert.equal(reply.status, 200, reply.text.slice(0, 200));
  const { results } = JSON.parse(reply.text) as { results: { task?: TaskJson; error?: string }[] };
  for (const [at, number] of numbers.entries()) {
    const { task, error } = results[at] as { task?: TaskJson; error?: string };
    if (task !== undefined) ledger.acknowledged.set(number, task.id);
    else assert.match(error ?? "", /disk is full/);
  }
  assert.ok(
    results.some(({ task }) => task) && results.some(({ error }) => error),
    "it is half-way",
  );
  world.files.empty();
  await createUntilTaken({ server, api }, ledger);
  await assertReadable(api, ledger);
  await assertExactly(api, ledger);
  await server.kill();
  await assertOnDisk(world.dataDir, ledger);
});

test("a start on a full disk loses nothing and says what is wrong", async (t) => {
  const world = setup(t, {
    bytes: segmentBytes + 50 * mebibyte,
    fillerBytes: 30 * mebibyte,
    env: { CODEQ_MIN_FREE_DISK_BYTES: "0" },
  });
  if (world === undefined) return;
  const { server, api } = await world.start();
  await createUntilRefused(api, world.ledger);
  await server.kill();
  // Whatever is left.
  assert.throws(() => world.files.fill(100 * mebibyte), { code: "ENOSPC" });
  const exit = await endOfServer({ dataDir: world.dataDir });
  assert.equal(exit.code, 28, exit.stderr);
  assert.match(exit.stderr, /no (space|room) left/);
  assert.doesNotMatch(exit.stderr, /^\s+at /m);
  world.files.empty();
  const next = await world.start();
  await assertReadable(next.api, world.ledger);
  await assertExactly(next.api, world.ledger);
});
