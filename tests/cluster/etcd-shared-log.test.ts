/** The shared log on real servers: one, and three of which some are killed or paused. */
import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { after, describe, test } from "node:test";
import {
  EtcdClient,
  etcdMethods,
} from "../../packages/engine/src/log/replicated/etcd/etcd-client.ts";
import { keysOf } from "../../packages/engine/src/log/replicated/etcd/etcd-keys.ts";
import { EtcdServers } from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import { EtcdSharedLog } from "../../packages/engine/src/log/replicated/etcd/etcd-shared-log.ts";
import { EtcdSpace } from "../../packages/engine/src/log/replicated/etcd/etcd-space.ts";
import type { SharedLog } from "../../packages/engine/src/log/replicated/shared-log.ts";
import { sharedLogContract } from "../../packages/engine/test/shared-log-contract.ts";
import { systemClock as clock } from "../../packages/server/src/core/clock.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { certificateOf, EtcdOfTest, untilAnswered } from "./etcd-servers.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";

for (const count of [1, 3] as const) {
  describe(`on ${count} of etcd`, { skip }, () => {
    let servers: Promise<EtcdOfTest> | undefined;
    let logs = 0;
    after(async () => (await servers)?.[Symbol.asyncDispose]());

    sharedLogContract("EtcdSharedLog", async () => {
      servers ??= EtcdOfTest.start(path, count);
      const started = await servers;
      logs += 1;
      const name = `log-${logs}`;
      // Every handle prefers another member.
      const clients = started.urls.map((_, at) => {
        const urls = [...started.urls.slice(at), ...started.urls.slice(0, at)];
        return started.connect(`n${at}`, urls);
      });
      const [first] = clients;
      await untilAnswered(async () => await first?.create(name, { logId: 40 + logs }));
      let handles = 0;
      return {
        connect: async () => {
          handles += 1;
          return (await clients[handles % clients.length]?.open(name)) as SharedLog;
        },
        [Symbol.asyncDispose]: async () => {
          for (const client of clients) await client[Symbol.asyncDispose]();
        },
      };
    });
  });
}

describe("logs in etcd", { skip }, () => {
  let servers: Promise<EtcdOfTest> | undefined;
  after(async () => (await servers)?.[Symbol.asyncDispose]());

  async function setup(): Promise<EtcdServers> {
    servers ??= EtcdOfTest.start(path, 1);
    const etcd = (await servers).connect();
    await untilAnswered(() => etcd.members());
    return etcd;
  }

  test("makes a log once, and opens none that is missing", async () => {
    await using etcd = await setup();
    assert.equal(await etcd.open("once"), undefined);
    assert.equal(await etcd.create("once", { logId: 5 }), true);
    assert.equal(await etcd.create("once", { logId: 6 }), false);
    // The repeat of a call of which no answer came.
    assert.equal(await etcd.create("once", { logId: 5 }), true);
    assert.equal((await etcd.open("once"))?.logId, 5);
  });

  test("begins a log behind another log", async () => {
    await using etcd = await setup();
    await etcd.create("later", { logId: 5, firstSlot: 9 });
    const log = (await etcd.open("later")) as SharedLog;
    assert.deepEqual(await log.bounds(), { first: 9, last: 8 });
    assert.equal((await log.append(Buffer.from("nine"), 9)).kind, "kept");
    assert.deepEqual(await log.bounds(), { first: 9, last: 9 });
    await log.close();
  });

  test("renews a log only as it was found, and the old handles notice", async () => {
    await using etcd = await setup();
    await etcd.create("renewed", { logId: 5 });
    const log = (await etcd.open("renewed")) as SharedLog;
    await log.append(Buffer.from("one"), 1);
    const found = await etcd.look("renewed");
    await log.append(Buffer.from("two"), 2);
    assert.equal(await etcd.renew("renewed", found, { logId: 6, firstSlot: 2 }), false);
    assert.deepEqual(await log.bounds(), { first: 1, last: 2 });
    const now = await etcd.look("renewed");
    assert.equal(await etcd.renew("renewed", now, { logId: 6, firstSlot: 3 }), true);
    assert.equal(await etcd.renew("renewed", now, { logId: 6, firstSlot: 3 }), true);
    assert.equal((await log.append(Buffer.from("three"), 3)).kind, "lost");
    await assert.rejects(log.bounds(), { code: "corrupt", message: /another log \(6\).*\(5\)/ });
    const renewed = (await etcd.open("renewed")) as SharedLog;
    assert.deepEqual(await renewed.bounds(), { first: 3, last: 2 });
    await Promise.all([log.close(), renewed.close()]);
  });

  test("is used only by clients with a certificate of the cluster", async () => {
    await using etcd = await setup();
    const urls = [etcd.url];
    const strangers = [undefined, certificateOf("stranger", "another secret")];
    for (const tls of strangers) {
      await using stranger = new EtcdServers({ urls, node: "stranger", clock, tls });
      await assert.rejects(stranger.members(), { code: "storage_failed" });
    }
  });

  test("accepts the records that codeQ writes", async () => {
    await using etcd = await setup();
    await etcd.assertUsable();
  });
});

test("a small etcd reports that it is full, and takes more when it was trimmed", {
  skip,
}, async () => {
  await using servers = await EtcdOfTest.start(path, 1, { quotaBytes: 96 * 1024 * 1024 });
  await using etcd = servers.connect();
  await untilAnswered(() => etcd.create("small", { logId: 5 }));
  const log = (await etcd.open("small")) as SharedLog;
  const record = Buffer.alloc(200_000);
  let slot = 0;
  /** Asks again until it is known what became of the next record. */
  const append = async (bytes: Buffer): Promise<string> => {
    for (;;) {
      const { kind } = await log.append(bytes, slot + 1);
      if (kind === "kept") slot += 1;
      if (kind !== "unknown") return kind;
    }
  };
  while ((await append(record)) === "kept");
  assert.ok(slot > 200);
  // A heartbeat is still kept: a leader has to stay to trim the log.
  const beat = async (): Promise<void> => assert.equal(await append(Buffer.from("beat")), "kept");
  await beat();
  await log.trim(slot);
  // etcd counts pages as free only when it writes again.
  for (; ; await beat()) {
    const { freeBytes, bytesMax } = await log.space();
    if (freeBytes > bytesMax / 2) break;
    await new Promise<void>((resolve) => void clock.after(20, resolve));
  }
  assert.equal(await append(record), "kept");
  await log.close();
});

test("servers that have used up their quota take records again when there is room, though one is down", {
  skip,
}, async () => {
  const quotaBytes = 48 * 1024 * 1024;
  await using servers = await EtcdOfTest.start(path, 3, { quotaBytes });
  await using etcd = servers.connect();
  await untilAnswered(() => etcd.create("log", { logId: 5 }));
  const log = (await etcd.open("log")) as SharedLog;
  assert.equal((await log.append(Buffer.from("one"), 1)).kind, "kept");
  // Somebody else fills etcd.
  const others = new EtcdClient(servers.options());
  const value = Buffer.alloc(1_000_000);
  const put = (key: string): Promise<unknown> =>
    others.ask(etcdMethods.put, { key, value }, { timeoutMs: 5000 });
  let at = 0;
  for (; ; at += 1) {
    try {
      await put(`other/${at % 4}`);
    } catch (error) {
      if (/space exceeded/.test((error as Error).message)) break;
      assert.match((error as Error).message, /timed out|no answer|leader|lost/);
    }
  }
  assert.ok(at > 20, `${at} writes`);
  const refused = await log.append(Buffer.from("two"), 2);
  assert.deepEqual([refused.kind, await log.bounds()], ["full", { first: 1, last: 1 }]);
  await servers.kill(2);
  // Nothing of the log can go, but the old values of the others are history.
  await untilAnswered(() => log.trim(1));
  for (;;) {
    const { kind } = await log.append(Buffer.from("two"), 2);
    if (kind === "kept") break;
    assert.match(kind, /^(full|unknown)$/);
    await new Promise<void>((resolve) => void clock.after(50, resolve));
  }
  assert.deepEqual(await log.bounds(), { first: 1, last: 2 });
  await log.close();
  others.close();
});

test("a server that accepts connections and says nothing keeps nobody waiting", {
  skip,
}, async (t) => {
  await using servers = await EtcdOfTest.start(path, 1);
  await using ready = servers.connect();
  await untilAnswered(() => ready.create("log", { logId: 5 }));
  const silent = createServer();
  t.after(() => silent.close());
  await new Promise<void>((resolve) => void silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  // Calls are never given up here, so one server after the other would take for ever.
  const patient = {
    ...clock,
    after: (ms: number, run: () => void) => clock.after(ms <= 200 ? 0 : 3_600_000, run),
  };
  const urls = [`https://127.0.0.1:${port}`, ...servers.urls];
  await using etcd = new EtcdServers({ urls, node: "n", clock: patient, tls: certificateOf("n") });
  assert.equal((await etcd.members()).length, 1);
  // A leader appends at once to the member that it has used so far.
  const client = new EtcdClient({ urls, clock: patient, tls: certificateOf("n") });
  const log = new EtcdSharedLog({
    client,
    space: new EtcdSpace(client, patient),
    keys: keysOf("codeq/", "log"),
    name: "log",
    node: "n",
    clock: patient,
    logId: 5,
    head: 0,
    revision: (await ready.look("log"))?.revision ?? 0,
    compact: async () => {},
  });
  assert.equal((await log.append(Buffer.from("one"), 1)).kind, "kept");
  await log.close();
  client.close();
});

test("three servers go on when one is killed or paused, and keep every answer", {
  skip,
}, async () => {
  await using servers = await EtcdOfTest.start(path, 3);
  await using etcd = servers.connect();
  await untilAnswered(() => etcd.create("three", { logId: 9 }));
  const log = (await untilAnswered(() => etcd.open("three"))) as SharedLog;
  let slot = 0;
  const appendNext = async (): Promise<void> => {
    slot += 1;
    const record = Buffer.from(`record ${slot}`);
    for (;;) {
      const outcome = await log.append(record, slot);
      if (outcome.kind === "kept") break;
      assert.equal(outcome.kind, "unknown");
      await new Promise<void>((resolve) => void clock.after(20, resolve));
    }
    const { last } = await untilAnswered(() => log.bounds());
    assert.equal(last, slot);
  };
  const appendSome = async (): Promise<void> => {
    for (let at = 0; at < 20; at++) await appendNext();
  };
  await appendSome();
  for (const at of [0, 1, 2]) {
    await servers.kill(at);
    await appendSome();
    await servers.startServer(at);
    servers.signal((at + 1) % 3, "SIGSTOP");
    await appendSome();
    servers.signal((at + 1) % 3, "SIGCONT");
  }
  const found: string[] = [];
  while (found.length < slot) {
    const records = await untilAnswered(() => log.read(found.length + 1));
    for (const record of records) found.push(Buffer.from(record).toString());
  }
  assert.deepEqual(
    found,
    Array.from({ length: slot }, (_, at) => `record ${at + 1}`),
  );
  await log.close();
});
