/** `get` and `task get`: shows one task. */

import { taskIn, taskLines } from "../api/task-view.ts";
import { wholeId } from "../api/whole-id.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";

export async function run(call: Call): Promise<number> {
  const api = await call.api();
  const id = await wholeId(call, call.word(0));
  const isGo = call.row.group === "go";
  const query = !isGo && call.options.has("local") ? "?consistency=local" : "";
  const { text } = await api.get(`/tasks/${encodeURIComponent(id)}${query}`);
  if (call.json || isGo) call.print(text);
  else for (const line of taskLines(taskIn(text), call.style)) call.print(line);
  return exitCodes.ok.code;
}
