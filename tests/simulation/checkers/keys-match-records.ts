/** The index keys in the store are exactly those that the task records call for, both ways. */

import { idempotencyKeyOf, payloadKey } from "../../../packages/server/src/core/store/keys.ts";
import { keysOf } from "../../../packages/server/src/core/store/task-rows.ts";
import type { MakeChecker } from "./checker.ts";

const indexed = ["codeq/q/", "codeq/ttl/", "codeq/start-by/", "codeq/idempo/", "codeq/payload/"];

export const keysMatchRecords: MakeChecker = ({ report }) => ({
  looked: ({ keys, tasks, unreadable }) => {
    for (const key of unreadable) report(`${key} does not decode`);
    const expected = new Set<string>();
    for (const task of tasks.values()) {
      for (const key of keysOf(task)) expected.add(key);
      if (task.payload === undefined) expected.add(payloadKey(task.id));
      if (task.idempotencyKey !== "") {
        expected.add(idempotencyKeyOf(task.tenantId, task.idempotencyKey));
      }
    }
    for (const key of expected) if (!keys.has(key)) report(`${key} is missing`);
    for (const key of keys.keys()) {
      const isIndexed = indexed.some((prefix) => key.startsWith(prefix));
      if (isIndexed && !expected.has(key)) report(`${key} belongs to no task`);
    }
  },
});
