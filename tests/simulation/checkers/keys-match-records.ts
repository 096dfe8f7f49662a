/** The index keys in the store are exactly those that the task records call for, both ways. */

import { decodeIdempotency } from "../../../packages/server/src/core/records/idempotency-record.ts";
import {
  idempotencyKeyOf,
  idempotencyPrefix,
  keptKeyOf,
  keptKeysPrefix,
  numberOf,
  payloadKey,
} from "../../../packages/server/src/core/store/keys.ts";
import { keysOf } from "../../../packages/server/src/core/store/task-rows.ts";
import type { MakeChecker } from "./checker.ts";

const indexed = [
  "codeq/failures/",
  "codeq/failure-times/",
  "codeq/q/",
  "codeq/ttl/",
  "codeq/start-by/",
  idempotencyPrefix,
  keptKeysPrefix,
  "codeq/payload/",
];

export const keysMatchRecords: MakeChecker = ({ world, report }) => ({
  looked: ({ keys, tasks, unreadable }) => {
    const latestMs = world.wallMsMax;
    for (const key of unreadable) report(`${key} does not decode`);
    const expected = new Set<string>();
    for (const task of tasks.values()) {
      for (const key of keysOf(task)) expected.add(key);
      if (task.payload === undefined) expected.add(payloadKey(task.id));
      if (task.idempotencyKey !== "") {
        expected.add(idempotencyKeyOf(task.tenantId, task.idempotencyKey));
      }
    }
    for (const [key, value] of keys) {
      const entry = key.startsWith(idempotencyPrefix) && decodeIdempotency(value.toString());
      if (!entry || entry.gone === undefined) continue;
      if (tasks.has(entry.taskId)) report(`${key} says that ${entry.taskId} was deleted`);
      expected.add(key).add(keptKeyOf(entry.gone.untilMs, key));
    }
    for (const key of expected) if (!keys.has(key)) report(`${key} is missing`);
    for (const key of keys.keys()) {
      const isIndexed = indexed.some((prefix) => key.startsWith(prefix));
      // The time of a key that has another task since is deleted when it comes.
      const isOld = key.startsWith(keptKeysPrefix) && numberOf(key) <= latestMs;
      if (isIndexed && !isOld && !expected.has(key)) report(`${key} belongs to no task`);
    }
  },
});
