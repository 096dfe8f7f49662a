import assert from "node:assert/strict";
import { test } from "node:test";
import type { SharedLog } from "@codeq/engine";
import { SimClock } from "@codeq/simulated";
import type { LogReplica } from "./log-replica.ts";
import { NodeLog, type ReplicaFiles } from "./node-log.ts";

test("a replica that opens while its node ends is closed, and nobody reads from it", async () => {
  const opened = Promise.withResolvers<LogReplica>();
  const asked = Promise.withResolvers<void>();
  const told: (LogReplica | undefined)[] = [];
  let isClosed = false;
  const replica = {
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
    },
  } as LogReplica;
  const log = new NodeLog({
    shard: 0,
    clock: new SimClock(),
    find: () => Promise.resolve({} as SharedLog),
    open: () => {
      asked.resolve();
      return opened.promise;
    },
    files: {} as ReplicaFiles,
    onReplica: (each) => told.push(each),
    onChange: () => {},
    onWait: () => {},
  });
  log.start();
  await asked.promise;
  const ended = log[Symbol.asyncDispose]();
  opened.resolve(replica);
  await ended;
  assert.ok(isClosed);
  assert.deepEqual(told, [undefined]);
});

for (const how of ["reopen", "halt"] as const) {
  test(`a report does not open files that ${how} is still closing`, async () => {
    const closing = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    let areOpen = true;
    const close = async (): Promise<void> => {
      await closing.promise;
      areOpen = false;
    };
    const replica = { abandon: close, [Symbol.asyncDispose]: close } as LogReplica;
    const shared: (SharedLog | undefined)[] = [{} as SharedLog];
    const stored = async (): Promise<undefined> => {
      assert.ok(!areOpen, "the replica has its files open");
    };
    const log = new NodeLog({
      shard: 0,
      clock: new SimClock(),
      find: async () => shared.pop(),
      open: async () => replica,
      files: { stored } as Partial<ReplicaFiles> as ReplicaFiles,
      onReplica: () => opened.resolve(),
      onChange: () => {},
      onWait: () => {},
    });
    log.start();
    await opened.promise;
    const done = log[how]();
    await Promise.resolve();
    const report = log.report();
    closing.resolve();
    assert.equal((await report).stored, undefined);
    await done;
    await log[Symbol.asyncDispose]();
  });
}
