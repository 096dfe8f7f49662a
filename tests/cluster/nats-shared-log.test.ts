/** The shared log on real servers: one, and three of which one is killed. Campaigns also pause them. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { NatsServers } from "../../packages/engine/src/log/replicated/nats-shared-log.ts";
import type { SharedLog } from "../../packages/engine/src/log/replicated/shared-log.ts";
import { sharedLogContract } from "../../packages/engine/test/shared-log-contract.ts";
import { natsBinary } from "./nats-binary.ts";
import { NatsServersOfTest } from "./nats-servers.ts";

const binary = natsBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";
const bytesMax = 64 * 1024 * 1024;

describe("on one server", { skip }, () => {
  let servers: Promise<NatsServersOfTest> | undefined;
  let logs = 0;
  after(async () => (await servers)?.[Symbol.asyncDispose]());

  sharedLogContract("NatsSharedLog", async () => {
    servers ??= NatsServersOfTest.start(path, 1);
    const { urls } = await servers;
    logs += 1;
    const name = `codeq-${logs}`;
    const nats = await NatsServers.connect({ urls, name: "test" });
    await nats.create(name, { logId: 40 + logs, replicas: 1, bytesMax });
    return {
      connect: async () => (await nats.open(name)) as SharedLog,
      [Symbol.asyncDispose]: () => nats[Symbol.asyncDispose](),
    };
  });

  test("makes a stream once, and opens none that is missing", async () => {
    servers ??= NatsServersOfTest.start(path, 1);
    await using nats = await NatsServers.connect({ urls: (await servers).urls, name: "test" });
    assert.equal(await nats.open("codeq-once"), undefined);
    const log = { logId: 5, replicas: 1, bytesMax };
    assert.equal(await nats.create("codeq-once", log), true);
    assert.equal(await nats.create("codeq-once", { ...log, logId: 6 }), false);
    assert.equal((await nats.open("codeq-once"))?.logId, 5);
  });

  test("says that it is full, and takes more when it was trimmed", async () => {
    servers ??= NatsServersOfTest.start(path, 1);
    await using nats = await NatsServers.connect({ urls: (await servers).urls, name: "test" });
    await nats.create("codeq-small", { logId: 5, replicas: 1, bytesMax: 20_000 });
    const log = (await nats.open("codeq-small")) as SharedLog;
    const record = Buffer.alloc(8000);
    assert.equal((await log.append(record, 1)).kind, "kept");
    assert.equal((await log.append(record, 2)).kind, "kept");
    assert.equal((await log.append(record, 3)).kind, "full");
    await log.trim(2);
    assert.equal((await log.append(record, 3)).kind, "kept");
  });

  test("says that its stream is gone, and that another has taken its place", async () => {
    servers ??= NatsServersOfTest.start(path, 1);
    const { urls } = await servers;
    await using nats = await NatsServers.connect({ urls, name: "test" });
    await nats.create("codeq-gone", { logId: 5, replicas: 1, bytesMax });
    const log = (await nats.open("codeq-gone")) as SharedLog;
    assert.equal((await log.append(Buffer.from("record"), 1)).kind, "kept");
    await (await servers).removeStream("codeq-gone");
    await assert.rejects(log.bounds(), { code: "storage_failed", message: /codeq-gone is gone/ });
    // That takes a question of its own, while the first one is answered without a reason.
    for (;;) {
      const outcome = await log.append(Buffer.from("record"), 2);
      assert.equal(outcome.kind, "unknown");
      if (outcome.kind === "unknown" && outcome.why.includes("is gone")) break;
    }
    await assert.rejects(log.read(1), /codeq-gone is gone.*Restore the stream/);
    await nats.create("codeq-gone", { logId: 6, replicas: 1, bytesMax });
    await assert.rejects(log.bounds(), { code: "corrupt", message: /another log \(6\).*\(5\)/ });
  });

  test("takes records of the same size while it has no server", async () => {
    await using lost = await NatsServersOfTest.start(path, 1);
    await using nats = await NatsServers.connect({ urls: lost.urls, name: "test" });
    await nats.create("codeq-lost", { logId: 5, replicas: 1, bytesMax });
    const log = (await nats.open("codeq-lost")) as SharedLog;
    const { recordBytesMax } = log;
    await lost.kill(0);
    assert.equal((await log.append(Buffer.from("record"), 1)).kind, "unknown");
    assert.equal(log.recordBytesMax, recordBytesMax);
  });

  test("refuses a client without the password", async () => {
    servers ??= NatsServersOfTest.start(path, 1);
    const [url = ""] = (await servers).urls;
    const stranger = url.replace(/\/\/.*@/, "//");
    await assert.rejects(NatsServers.connect({ urls: [stranger], name: "stranger" }));
  });
});

test("goes on when one of three servers is killed, and comes back", { skip }, async () => {
  await using servers = await NatsServersOfTest.start(path, 3);
  await using nats = await NatsServers.connect({ urls: servers.urls, name: "test" });
  await untilAnswered(servers, () => nats.create("codeq-0", { logId: 9, replicas: 3, bytesMax }));
  const log = (await untilAnswered(servers, () => nats.open("codeq-0"))) as SharedLog;
  let slot = 0;
  const appendNext = async (): Promise<void> => {
    slot += 1;
    const record = Buffer.from(`record ${slot}`);
    for (; ; await servers.holdRequest()) {
      const { kind } = await log.append(record, slot);
      if (kind === "kept") return;
      // A repeat that comes second finds its own record.
      if (kind === "fenced") {
        const [found] = await untilAnswered(servers, () => log.read(slot));
        if (found !== undefined) {
          assert.ok(record.equals(found));
          return;
        }
      }
    }
  };
  for (let at = 0; at < 20; at++) await appendNext();
  await servers.kill(0);
  for (let at = 0; at < 20; at++) await appendNext();
  await servers.startServer(0);
  for (let at = 0; at < 20; at++) await appendNext();
  const found: string[] = [];
  while (found.length < slot) {
    const records = await untilAnswered(servers, () => log.read(found.length + 1));
    for (const record of records) found.push(Buffer.from(record).toString());
  }
  assert.deepEqual(
    found,
    Array.from({ length: slot }, (_, at) => `record ${at + 1}`),
  );
});

/** Servers that choose a leader refuse for a while. */
async function untilAnswered<T>(servers: NatsServersOfTest, ask: () => Promise<T>): Promise<T> {
  for (; ; await servers.holdRequest()) {
    try {
      return await ask();
    } catch (error) {
      if ((error as { code?: string }).code !== "storage_failed") throw error;
    }
  }
}
