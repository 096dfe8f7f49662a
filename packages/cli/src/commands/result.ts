/** `result`: prints the result of a task, at once or when it is there. */

import { parseExact } from "../api/json-text.ts";
import { type ResultFields, type TaskFields, taskFailure } from "../api/task-view.ts";
import { noResult, waitForResult } from "../api/wait-for-result.ts";
import { wholeId } from "../api/whole-id.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";

const waitMsDefault = 60_000;

export async function run(call: Call): Promise<number> {
  const id = await wholeId(call, call.word(0));
  if (!call.options.has("wait")) {
    const api = await call.api();
    const { text } = await api.get(`/tasks/${encodeURIComponent(id)}/result`);
    return showResult(call, text);
  }
  const timeoutMs = call.options.durationMs("timeout") ?? waitMsDefault;
  const text = await waitForResult(call, id, timeoutMs);
  if (text === undefined) throw noResult(call, id);
  return showResult(call, text);
}

/** Prints the answer of the API for a task that has ended. A failed task ends the command as failed. */
export function showResult(call: Call, text: string): number {
  const { result, task } = JSON.parse(text) as { result: ResultFields; task: TaskFields };
  const isDone = result.status === "COMPLETED";
  if (call.json) {
    call.print(text);
    return isDone ? exitCodes.ok.code : exitCodes.taskFailed.code;
  }
  if (!isDone) throw taskFailure(result, task);
  const { isTerminal } = call.host.output;
  // What the worker wrote keeps its digits.
  const exact = (parseExact(text) as { result: ResultFields }).result.result;
  call.print(JSON.stringify(exact ?? {}, undefined, isTerminal ? 2 : undefined));
  for (const { name, url } of result.artifacts ?? []) call.note(`artifact ${name}: ${url}`);
  return exitCodes.ok.code;
}
