import assert from "node:assert/strict";
import { test } from "node:test";
import * as queue from "./index.ts";

test("the package offers its rules and nothing else", () => {
  assert.deepEqual(Object.keys(queue).sort(), [
    "abandon",
    "accept",
    "attach",
    "attachedTo",
    "backoffPolicies",
    "backoffSeconds",
    "cancel",
    "cancelled",
    "changeOf",
    "checkOwner",
    "claim",
    "clampPriority",
    "complete",
    "edit",
    "emptyResult",
    "enqueue",
    "expireLease",
    "expiresMsOf",
    "extendLease",
    "isExpired",
    "isRepeat",
    "matchIdempotency",
    "nack",
    "promote",
    "queueOf",
    "refuse",
    "release",
    "replay",
    "resultOf",
    "retryOrBury",
    "statusOf",
    "violations",
    "withAttached",
  ]);
});
