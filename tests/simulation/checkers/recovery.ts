/**
 * The store is the log: after every start, and whenever nothing is under way, it holds what the
 * records that the log has say, no less and no more; and a start succeeds whenever the disk lets it.
 * A record that was acknowledged as durable is among them, as far as the mode promises.
 */
import { isDeepStrictEqual } from "node:util";
import type { FaultError } from "@codeq/engine";
import type { MakeChecker } from "./checker.ts";

export const recovery: MakeChecker = ({ world, report }) => ({
  recovered: ({ lost, mayHaveLost }) => {
    for (const { index, durableMs } of lost) {
      if (durableMs !== undefined && !mayHaveLost(durableMs)) {
        report(`record ${index}, durable at ${durableMs}, is gone`);
      }
    }
  },
  notStarted: (error) => {
    const { code } = error as FaultError;
    if (code !== "disk_full" && code !== "storage_failed") report(`no start: ${String(error)}`);
  },
  looked: ({ keys, tasks, isSettled }) => {
    if (!isSettled) return;
    const { ledger } = world;
    for (const [key, value] of ledger.keys) {
      if (key.startsWith("codeq/meta/")) continue;
      const stored = keys.get(key);
      if (stored === undefined) report(`${key} is in the log and not in the store`);
      else if (!value.equals(stored)) report(`${key} differs between log and store`);
    }
    for (const [id, task] of ledger.tasks) {
      const stored = tasks.get(id);
      if (isDeepStrictEqual(stored, task)) continue;
      report(`${id} is ${JSON.stringify(task)} in the log, ${JSON.stringify(stored)} in the store`);
    }
    for (const id of tasks.keys()) {
      if (!ledger.tasks.has(id)) report(`${id} is in the store and not in the log`);
    }
    for (const key of keys.keys()) {
      // Index keys follow from tasks; whether they do is another checker's to say.
      if (/^codeq\/(q|ttl|start-by|failures|failure-times)\//.test(key)) continue;
      if (!ledger.keys.has(key)) report(`${key} is in the store and not in the log`);
    }
  },
});
