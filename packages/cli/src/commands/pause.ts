/** `pause` and `resume`: stop and resume claims from a queue. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { localMoment } from "../terminal/units.ts";

export interface PauseFields {
  readonly command: string;
  readonly by: string;
  readonly at: string;
  readonly reason?: string;
}

export async function pause(call: Call): Promise<number> {
  const api = await call.api();
  const body = JSON.stringify({ reason: call.options.text("reason") });
  const { text } = await api.post(`${pathOf(call)}/pause`, body);
  if (call.json) call.print(text);
  else call.print(`paused ${call.word(0)}; resume it with codeq resume ${call.word(0)}`);
  return exitCodes.ok.code;
}

export async function resume(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.post(`${pathOf(call)}/resume`, "");
  if (call.json) call.print(text);
  else call.print(`resumed ${call.word(0)}`);
  return exitCodes.ok.code;
}

/** A sentence for people. */
export function pauseLine({ command, by, at, reason }: PauseFields): string {
  const why = reason === undefined ? "" : `: ${reason}`;
  return `${command} is paused by ${by} since ${localMoment(at)}${why}`;
}

function pathOf(call: Call): string {
  return `/admin/queues/${encodeURIComponent(call.word(0))}`;
}
