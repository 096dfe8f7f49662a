import assert from "node:assert/strict";
import { test } from "node:test";
import { operations } from "../start/features.ts";
import { isForAdmins } from "./access/authenticator.ts";

const all = Object.values(operations);

test("what administrators change counts in a rate limit, but for API keys", () => {
  const changes = all.filter(({ access, audit }) => isForAdmins(access) && audit?.of === "all");
  const unlimited = changes.filter((each) => each.rate === undefined).map(({ name }) => name);
  assert.deepEqual(unlimited.sort(), ["create_api_key", "revoke_api_key"]);
});

test("what administrators only look at counts in no rate limit, unless it is expensive", () => {
  const reads = all.filter(({ audit }) => audit?.of === "other tenants");
  const limited = reads.filter((each) => each.rate !== undefined).map(({ name }) => name);
  assert.deepEqual(limited, ["list_failure_groups"]);
});

test("an audit record names the parameters of the path, in their order", () => {
  const { pauseLane, getTopic, listTopics, downloadAnyArtifact } = operations;
  const lane = { name: "resize", lane: "acme", reason: "late" };
  assert.equal(pauseLane.audit?.target?.(lane), "resize acme");
  assert.equal(getTopic.audit?.target?.({ name: "resize" }), "resize");
  assert.equal(listTopics.audit?.target?.({ limit: 10, after: "" }), "");
  const file = { id: "t1", name: "cat.png", range: "" };
  assert.equal(downloadAnyArtifact.audit?.target?.(file), "t1 cat.png");
});

test("producers' changes count as creations, and reports of workers as nothing", () => {
  const { putBatch, cancelTask, getTask, nackTask, claimTasks } = operations;
  const creation = { scope: "producer", operation: "create_task" };
  assert.deepEqual([putBatch.rate, cancelTask.rate], [creation, creation]);
  assert.deepEqual([getTask.rate, nackTask.rate], [undefined, undefined]);
  assert.deepEqual(claimTasks.rate, { scope: "worker", operation: "claim" });
});
