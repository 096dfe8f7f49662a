/** `result`: prints the result of a task, at once or when it is there. */

import { codeIn } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import type { ApiClient } from "../../api/api-client.ts";
import { encryptedNote, type TaskResult, taskFailure, taskOf } from "../../api/task-view.ts";
import type { Call } from "../../call.ts";
import { CliError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";
import { pause } from "../../host.ts";
import { parseExact } from "../../payload.ts";

const waitMsDefault = 60_000;

export async function run(call: Call): Promise<number | undefined> {
  const { id } = await taskOf(call);
  if (!call.options.has("wait")) {
    const api = await call.api();
    return showResult(call, await api.call("GET /tasks/:id/result", { params: { id } }));
  }
  const timeoutMs = call.options.durationMs("timeout") ?? waitMsDefault;
  const answer = await waitForResult(call, id, timeoutMs);
  if (answer === undefined) throw noResult(call, id);
  return showResult(call, answer);
}

interface ResultAnswer {
  readonly text: string;
  readonly value: TaskResult;
}

/** Prints the answer of the API for a task that has ended. A failed task ends the command as failed. */
export function showResult(call: Call, { text, value }: ResultAnswer): number | undefined {
  const { result } = value;
  const isDone = result.status === "COMPLETED";
  if (call.json) {
    call.print(text);
    return isDone ? undefined : exitCodes.taskFailed.code;
  }
  if (!isDone) throw taskFailure(value);
  const { isTerminal } = call.host.output;
  // What the worker wrote keeps its digits.
  const exact = parseExact<TaskResult>(text).result.result;
  const encrypted = encryptedNote(JSON.stringify(exact ?? {}), result.taskId);
  if (encrypted !== undefined) call.note(encrypted);
  call.print(JSON.stringify(exact ?? {}, undefined, isTerminal ? 2 : undefined));
  for (const { name, url } of result.artifacts ?? []) call.note(`artifact ${name}: ${url}`);
  return undefined;
}

const askAgainMs = 500;

/**
 * Waits until a task has a result. The server holds the request until there is one; when the server goes
 * away in between, the request is repeated until the time is over. Returns undefined when the time was over or
 * the user stopped the command.
 */
export async function waitForResult(
  call: Call,
  id: string,
  timeoutMs: number,
): Promise<ResultAnswer | undefined> {
  const api = await call.api();
  const { clock } = call.host;
  const stopped = call.host.stopped();
  const endsMs = clock.monotonicMs() + timeoutMs;
  let isAway = false;
  for (;;) {
    const leftMs = Math.max(0, endsMs - clock.monotonicMs());
    const answer = await ask(api, id, { leftMs, stopped });
    if (answer === "away" && !isAway) {
      call.note("the server cannot be reached; trying again");
    }
    isAway = answer === "away";
    if (typeof answer === "object") return answer;
    if (isAway) await pause(clock, Math.min(askAgainMs, leftMs), stopped);
    if (stopped.aborted || clock.monotonicMs() >= endsMs) return undefined;
  }
}

async function ask(
  api: ApiClient,
  id: string,
  { leftMs, stopped }: { leftMs: number; stopped: AbortSignal },
): Promise<ResultAnswer | "none yet" | "away"> {
  const waitMs = Math.min(limits.resultWaitSecondsMax * 1000, leftMs);
  const key = "GET /tasks/:id/result";
  const given = { params: { id }, query: { waitSeconds: waitMs / 1000 } };
  try {
    const reply = await api.reply(key, given, { waitMs, signal: stopped });
    return codeIn(reply) === "result_not_found" ? "none yet" : api.accepted(key, reply);
  } catch (error) {
    if (stopped.aborted) return "none yet";
    if (isPassing(error)) return "away";
    throw error;
  }
}

/** A server that restarts is gone for a while, and says so just before. */
function isPassing(error: unknown): boolean {
  return error instanceof CliError && (error.exit === "unreachable" || error.status === 503);
}

/** For when `waitForResult` gave nothing. */
export function noResult(call: Call, id: string): CliError {
  const next = `the task continues; wait again with ${call.host.program} result ${id} --wait`;
  if (call.host.stopped().aborted)
    return new CliError("interrupted", { exit: "interrupted", next });
  return new CliError("no result arrived before the timeout", { exit: "timeout", next });
}
