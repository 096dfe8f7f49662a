/**
 * Commands on one task: `get` shows it; `cancel`, `move`, `run-now`, `reschedule`, `set-priority` and `edit` change it;
 * `heartbeat`, `nack` and `abandon` do by hand what the worker that holds it does.
 */

import type { ItemOf, ReplyOf } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import { ask, type BodyOf, bodyOf, print } from "../../api/contract-commands.ts";
import { taskLines, taskOf } from "../../api/task-view.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { checkCommand, readPayload, withPayload } from "../../payload.ts";
import { localMoment } from "../../terminal/units.ts";

export async function show(call: Call): Promise<void> {
  const isGo = call.row.group === "go";
  if (!isGo && call.options.has("by-key")) {
    const of = { params: { key: call.word(0) } };
    return print(call, ["GET /tasks/by-key/:key", of], (task) => linesOf(call, task));
  }
  const consistency = !isGo && call.options.has("local") ? "local" : undefined;
  const given = { params: await taskOf(call), query: { consistency } } as const;
  const { text, value } = await ask(call, "GET /tasks/:id", given);
  call.print(call.json || isGo ? text : linesOf(call, value));
}

function linesOf({ style }: Call, task: Parameters<typeof taskLines>[0]): string {
  return taskLines(task, style).join("\n");
}

export function cancel(call: Call): Promise<void> {
  const key = "POST /admin/tasks/:id/cancel";
  const given = { params: { id: call.word(0) }, body: bodyOf(call, key) };
  return print(call, [key, given], ({ task: { id, place, workerId } }) =>
    place === "leased"
      ? `asked ${workerId} to stop ${id}; the worker loses the task when the grace period is over`
      : `cancelled ${id}`,
  );
}

export function move(call: Call): Promise<void> {
  return change(call, { command: checkCommand(call.word(1)) });
}

export function runNow(call: Call): Promise<void> {
  return change(call, { delaySeconds: 0 });
}

export function reschedule(call: Call): Promise<void> {
  const { runAt, delaySeconds } = bodyOf(call, "PATCH /admin/tasks/:id");
  if ((delaySeconds === undefined) === (runAt === undefined)) {
    throw usageError("pass either --delay or --run-at");
  }
  return change(call, { runAt, delaySeconds });
}

export function setPriority(call: Call): Promise<void> {
  const text = call.word(1);
  if (!/^\d$/.test(text)) {
    throw usageError(`a priority is a number from 0 to ${limits.priorityMax}, not ${text}`);
  }
  return change(call, { priority: Number(text) });
}

export async function edit(call: Call): Promise<void> {
  const text = await readPayload(call, call.word(1), call.options.has("text"));
  return change(call, withPayload({}, text));
}

function change(call: Call, body: string | BodyOf<"PATCH /admin/tasks/:id">): Promise<void> {
  const given = { params: { id: call.word(0) }, body };
  return print(call, ["PATCH /admin/tasks/:id", given], ({ task }) => sentenceOf(task));
}

type ListedTask = ItemOf<"GET /admin/tasks">;

function sentenceOf({ id, command, place, priority = 0, dueAt }: ListedTask): string {
  const where = dueAt === undefined ? place : `${place} until ${localMoment(dueAt)}`;
  return `${id} is ${where} in ${command}, priority ${priority}`;
}

const leaseTokenMax = Number.MAX_SAFE_INTEGER;

export async function heartbeat(call: Call): Promise<void> {
  await ask(call, "POST /tasks/:id/heartbeat", {
    params: await taskOf(call),
    body: { extendSeconds: wholeSeconds(call, "extend"), leaseToken: leaseTokenOf(call) },
  });
  call.answer({ id: call.word(0), ok: true }, `extended ${call.word(0)}`);
}

export async function nack(call: Call): Promise<void> {
  const delay = call.options.exactSeconds("delay");
  const delaySeconds = delay && Math.min(delay, limits.delaySecondsMax);
  const reason = call.options.text("reason");
  const { value } = await ask(call, "POST /tasks/:id/nack", {
    params: await taskOf(call),
    body: { delaySeconds, reason, leaseToken: leaseTokenOf(call) },
  });
  const after = value.delaySeconds > 0 ? ` in ${value.delaySeconds} s` : "";
  showEnd(call, value, `will be retried${after}`);
}

export async function abandon(call: Call): Promise<void> {
  const interrupted = call.options.has("interrupted") ? true : undefined;
  const { value } = await ask(call, "POST /tasks/:id/abandon", {
    params: await taskOf(call),
    body: { interrupted, leaseToken: leaseTokenOf(call) },
  });
  showEnd(call, value, "is ready again");
}

/** How the attempt ended, unless the task became a dead letter. */
function showEnd(call: Call, ended: ReplyOf<"POST /tasks/:id/abandon">, otherwise: string): void {
  const id = call.word(0);
  const words = ended.status === "dlq" ? "is a dead letter: it used up its attempts" : otherwise;
  call.answer({ id, ...ended }, `${id} ${words}`);
}

function leaseTokenOf({ options }: Call): number | undefined {
  return options.wholeNumber("lease-token", { min: 0, max: leaseTokenMax });
}

function wholeSeconds({ options }: Call, name: string): number | undefined {
  const seconds = options.seconds(name);
  return seconds === undefined ? undefined : Math.min(seconds, limits.delaySecondsMax);
}
