/**
 * Bytes that rotted in the kv are never taken for what was written: who asks for a damaged task is told
 * so, no worker gets it, and every other task is served as it was.
 */
import { isDeepStrictEqual } from "node:util";
import { resultOf, type Task, type TaskId } from "@codeq/queue";
import { payloadKey, resultKey, taskKey } from "../../../packages/server/src/core/store/keys.ts";
import { type AnyExchange, namedTasks, sightingsOf } from "../exchange.ts";
import { resultBodiesOf } from "../store-view.ts";
import type { MakeChecker } from "./checker.ts";

export const rottenIsNotServed: MakeChecker = ({ world, report }) => {
  const { ledger, kvFiles } = world;
  /** What the reads of tasks were answered with. */
  const answers = new Map<TaskId, string>();

  /** An operator may have changed it. */
  const checkPayload = (id: TaskId, payload: string): void => {
    const apart = ledger.keys.get(payloadKey(id))?.toString("utf8");
    const versions = ledger.versions.get(id) ?? [];
    const isOne = payload === apart || versions.some(({ task }) => task?.payload === payload);
    if (!isOne) report(`${id} never had the payload ${payload}`);
  };
  const checkTask = (task: Task): void => {
    const versions = ledger.versions.get(task.id) ?? [];
    const isOne = versions.some((version) => isDeepStrictEqual(version.task, task));
    if (!isOne) report(`${task.id} was never ${JSON.stringify(task)}`);
  };
  const checkResult = (exchange: AnyExchange): void => {
    for (const { task, result } of sightingsOf(exchange)) {
      const kept = task === undefined ? undefined : ledger.tasks.get(task.id);
      if (kept === undefined || result === undefined) continue;
      const [body] = resultBodiesOf(ledger.keys, kept);
      const written = body === undefined ? undefined : resultOf(kept, body);
      if (!isDeepStrictEqual(result, written)) report(`${kept.id} has a result that nobody gave`);
    }
  };

  /** A key whose entry has rotted does not become free. */
  const checkKey = ({ id, tenantId, idempotencyKey }: Task): void => {
    for (const other of idempotencyKey === "" ? [] : ledger.tasks.values()) {
      const isSame = other.tenantId === tenantId && other.idempotencyKey === idempotencyKey;
      if (isSame && other.id !== id) report(`${idempotencyKey} stands for ${other.id} and ${id}`);
    }
  };

  return {
    answered: (exchange) => {
      if (kvFiles.rotten.size === 0) return;
      for (const { id, answer } of namedTasks(exchange)) {
        // A tenant that asks too much learns nothing.
        const isAnswered =
          exchange.verb === "getTask" && (answer.ok || answer.code !== "quota_exceeded");
        if (isAnswered) answers.set(id as TaskId, answer.ok ? "served" : answer.code);
      }
      for (const { task } of sightingsOf(exchange)) {
        if (task !== undefined) checkTask(task);
        if (task !== undefined && exchange.verb === "createTask") checkKey(task);
      }
      checkResult(exchange);
      if (!exchange.answer.ok) return;
      if (exchange.verb === "getTask") {
        checkPayload(exchange.answer.value.task.id, exchange.answer.value.payload);
      }
      if (exchange.verb === "claimTasks") {
        for (const { task, payload } of exchange.answer.value) checkPayload(task.id, payload);
      }
    },
    ended: ({ core }) => {
      if (kvFiles.rotten.size === 0) return;
      for (const [id, answer] of answers) {
        if (!ledger.tasks.has(id)) continue;
        const isGone = kvFiles.rotten.has(taskKey(id)) || kvFiles.rotten.has(payloadKey(id));
        if (isGone && answer !== "data_damaged") report(`${id} has rotted and is ${answer}`);
        if (!isGone && answer !== "served") report(`${id} is sound and answered with ${answer}`);
        if (isGone && core.store.quarantined === 0) report(`${id} has rotted and is not counted`);
        const isResultGone = kvFiles.rotten.has(resultKey(id));
        if (isResultGone && core.store.quarantined === 0)
          report(`the result of ${id} is not counted`);
      }
    },
  };
};
