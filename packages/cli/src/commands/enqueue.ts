/** `enqueue`: creates one task and may wait for its result, or creates one task for every line. */
import { checkCommand, createBody, taskFields } from "../api/create-body.ts";
import { taskIn } from "../api/task-view.ts";
import { noResult, waitForResult } from "../api/wait-for-result.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { readPayload } from "../payload.ts";
import { enqueueLines } from "./enqueue-lines.ts";
import { showResult } from "./result.ts";

const waitMsDefault = 60_000;

export async function run(call: Call): Promise<number> {
  const { options } = call;
  const command = checkCommand(call.word(0));
  const fields = taskFields(options);
  if (options.has("lines")) return enqueueLines(call, { command, fields });
  const payload = await readPayload(call, call.word(1) || "{}", options.has("text"));
  const api = await call.api();
  const body = createBody({ command, payload, fields });
  const reply = await api.post("/tasks", body);
  const task = taskIn(reply.text);
  const replayed = reply.headers.get("idempotent-replayed") === "true";
  if (!options.has("wait")) {
    if (call.json) call.print(reply.text);
    else call.print(`${replayed ? "already enqueued" : "enqueued"} ${task.id}`);
    return exitCodes.ok.code;
  }
  call.note(`${replayed ? "already enqueued" : "enqueued"} ${task.id}`);
  const timeoutMs = options.durationMs("timeout") ?? waitMsDefault;
  const text = await waitForResult(call, task.id, timeoutMs);
  if (text === undefined) throw noResult(call, task.id);
  return showResult(call, text);
}
