/** `task create` and `task result` as the Go command line has them: same flags, same output. */
import { limits } from "@codeq/server/command-line";
import { asMembers, createBody } from "../api/create-body.ts";
import { isJson } from "../api/json-text.ts";
import { taskIn } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";

export async function create(call: Call): Promise<number> {
  const { options } = call;
  const command = options.text("event");
  const payload = options.text("payload");
  if (command === undefined) throw usageError("--event is required");
  if (payload === undefined) throw usageError("--payload is required");
  if (!isJson(payload)) throw usageError("--payload is not JSON");
  const fields = asMembers({
    priority: options.wholeNumber("priority", { min: -1_000_000, max: 1_000_000 }),
    webhook: options.text("webhook"),
    maxAttempts: options.wholeNumber("max-attempts", { min: 0, max: limits.maxAttemptsMax }),
    idempotencyKey: options.text("idempotency-key"),
    runAt: options.text("run-at"),
    delaySeconds: options.wholeNumber("delay-seconds", { min: 0, max: limits.delaySecondsMax }),
  });
  const api = await call.api();
  const { text } = await api.post("/tasks", createBody({ command, payload, fields }));
  if (call.json) call.print(text);
  else call.print(`[OK] Task created: ${taskIn(text).id}`);
  return exitCodes.ok.code;
}

export async function result(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get(`/tasks/${encodeURIComponent(call.word(0))}/result`);
  call.print(text);
  return exitCodes.ok.code;
}
