/** `result`: prints the result of a task, at once or when it is there. */

import { codeIn, type Reply } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import type { ApiClient } from "../api/api-client.ts";
import { type ResultFields, type TaskFields, taskFailure, wholeId } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { pause } from "../host.ts";
import { parseExact } from "../payload.ts";

const waitMsDefault = 60_000;

export async function run(call: Call): Promise<number | undefined> {
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
export function showResult(call: Call, text: string): number | undefined {
  const { result, task } = JSON.parse(text) as { result: ResultFields; task: TaskFields };
  const isDone = result.status === "COMPLETED";
  if (call.json) {
    call.print(text);
    return isDone ? undefined : exitCodes.taskFailed.code;
  }
  if (!isDone) throw taskFailure(result, task);
  const { isTerminal } = call.host.output;
  // What the worker wrote keeps its digits.
  const exact = (parseExact(text) as { result: ResultFields }).result.result;
  call.print(JSON.stringify(exact ?? {}, undefined, isTerminal ? 2 : undefined));
  for (const { name, url } of result.artifacts ?? []) call.note(`artifact ${name}: ${url}`);
  return undefined;
}

const askAgainMs = 500;

/**
 * Waits until a task has a result. The server holds the request until there is one; when the server goes
 * away in between, the request is repeated until the time is over. Returns the answer as text, or undefined when
 * the time was over or the user stopped the command.
 */
export async function waitForResult(
  call: Call,
  id: string,
  timeoutMs: number,
): Promise<string | undefined> {
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
    if (typeof answer === "object") return answer.text;
    if (isAway) await pause(clock, Math.min(askAgainMs, leftMs), stopped);
    if (stopped.aborted || clock.monotonicMs() >= endsMs) return undefined;
  }
}

async function ask(
  api: ApiClient,
  id: string,
  { leftMs, stopped }: { leftMs: number; stopped: AbortSignal },
): Promise<Reply | "none yet" | "away"> {
  const waitMs = Math.min(limits.resultWaitSecondsMax * 1000, leftMs);
  const path = `/tasks/${encodeURIComponent(id)}/result?waitSeconds=${waitMs / 1000}`;
  try {
    const reply = await api.ask("GET", path, { waitMs, signal: stopped });
    if (reply.status === 200) return reply;
    if (codeIn(reply) === "result_not_found") return "none yet";
    throw api.refusal(reply);
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
