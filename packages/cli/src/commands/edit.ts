/** `move`, `run-now`, `reschedule`, `set-priority` and `edit`: change a waiting task. */
import { limits } from "@codeq/server/command-line";
import { checkCommand } from "../api/create-body.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { readPayload } from "../payload.ts";
import { localMoment } from "../terminal/units.ts";
import type { ListedTask } from "./tasks.ts";

export function move(call: Call): Promise<number> {
  return edit(call, `"command":${JSON.stringify(checkCommand(call.word(1)))}`);
}

export function runNow(call: Call): Promise<number> {
  return edit(call, `"delaySeconds":0`);
}

export function reschedule(call: Call): Promise<number> {
  const delayMs = call.options.durationMs("delay");
  const runAt = call.options.instant("run-at");
  if ((delayMs === undefined) === (runAt === undefined)) {
    throw usageError("pass either --delay or --run-at");
  }
  if (runAt !== undefined) return edit(call, `"runAt":${JSON.stringify(runAt)}`);
  return edit(call, `"delaySeconds":${Math.ceil((delayMs ?? 0) / 1000)}`);
}

export function setPriority(call: Call): Promise<number> {
  const text = call.word(1);
  if (!/^\d$/.test(text)) {
    throw usageError(`a priority is a number from 0 to ${limits.priorityMax}, not ${text}`);
  }
  return edit(call, `"priority":${text}`);
}

/** Put together as text, because the server keeps the payload as it was written. */
export async function payload(call: Call): Promise<number> {
  return edit(call, `"payload":${await readPayload(call, call.word(1), call.options.has("text"))}`);
}

async function edit(call: Call, member: string): Promise<number> {
  const api = await call.api();
  const { text } = await api.patch(
    `/admin/tasks/${encodeURIComponent(call.word(0))}`,
    `{${member}}`,
  );
  if (call.json) call.print(text);
  else call.print(sentenceOf((JSON.parse(text) as { task: ListedTask }).task));
  return exitCodes.ok.code;
}

function sentenceOf({ id, command, place, priority = 0, dueAt }: ListedTask): string {
  const where = dueAt === undefined ? place : `${place} until ${localMoment(dueAt)}`;
  return `${id} is ${where} in ${command}, priority ${priority}`;
}
