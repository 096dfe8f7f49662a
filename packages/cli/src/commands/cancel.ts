/** `cancel`: cancels a task. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import type { ListedTask } from "./tasks.ts";

export async function run(call: Call): Promise<number> {
  const graceMs = call.options.durationMs("grace");
  const graceSeconds = graceMs === undefined ? undefined : Math.ceil(graceMs / 1000);
  const api = await call.api();
  const path = `/admin/tasks/${encodeURIComponent(call.word(0))}/cancel`;
  const { text } = await api.post(path, JSON.stringify({ graceSeconds }));
  if (call.json) {
    call.print(text);
    return exitCodes.ok.code;
  }
  const { id, place, workerId } = (JSON.parse(text) as { task: ListedTask }).task;
  const told = `asked ${workerId} to stop ${id}; the worker loses the task when the grace period is over`;
  call.print(place === "leased" ? told : `cancelled ${id}`);
  return exitCodes.ok.code;
}
