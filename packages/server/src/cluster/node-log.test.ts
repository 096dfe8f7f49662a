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
