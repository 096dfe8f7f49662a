/** `heartbeat`, `nack` and `abandon`: the actions of a worker on a task it holds, by hand. */
import { limits } from "@codeq/server/command-line";
import { wholeId } from "../api/whole-id.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";

export async function heartbeat(call: Call): Promise<number> {
  const extendMs = call.options.durationMs("extend");
  await send(call, "heartbeat", { extendSeconds: wholeSeconds(extendMs) });
  return answer(call, { ok: true }, `extended ${call.word(0)}`);
}

export async function nack(call: Call): Promise<number> {
  const text = await send(call, "nack", {
    delaySeconds: wholeSeconds(call.options.durationMs("delay")),
    reason: call.options.text("reason"),
  });
  const told = JSON.parse(text) as { status: string; delaySeconds: number };
  const delay = told.delaySeconds > 0 ? ` in ${told.delaySeconds} s` : "";
  const words =
    told.status === "dlq" ? "is a dead letter: it used up its attempts" : `will be retried${delay}`;
  return answer(call, told, `${call.word(0)} ${words}`);
}

export async function abandon(call: Call): Promise<number> {
  const interrupted = call.options.has("interrupted") ? true : undefined;
  const told = JSON.parse(await send(call, "abandon", { interrupted })) as { status: string };
  const words =
    told.status === "dlq" ? "is a dead letter: it used up its attempts" : "is ready again";
  return answer(call, told, `${call.word(0)} ${words}`);
}

async function send(
  call: Call,
  verb: string,
  fields: Readonly<Record<string, unknown>>,
): Promise<string> {
  const api = await call.api();
  const max = Number.MAX_SAFE_INTEGER;
  const leaseToken = call.options.wholeNumber("lease-token", { min: 0, max });
  const body = JSON.stringify({ ...fields, leaseToken });
  const path = `/tasks/${encodeURIComponent(await wholeId(call, call.word(0)))}/${verb}`;
  return (await api.post(path, body, { as: "worker" })).text;
}

function wholeSeconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.min(Math.ceil(ms / 1000), limits.delaySecondsMax);
}

function answer(call: Call, told: object, words: string): number {
  if (call.json) call.printJson({ id: call.word(0), ...told });
  else call.print(words);
  return exitCodes.ok.code;
}
