/** `dlq triage`: what was decided about a failure group. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";

export async function run(call: Call): Promise<number> {
  const [group, state] = [call.word(0), call.word(1)];
  const snoozeMs = call.options.durationMs("for");
  const body = JSON.stringify({
    state,
    snoozeSeconds: snoozeMs === undefined ? undefined : Math.ceil(snoozeMs / 1000),
    reason: call.options.text("reason"),
  });
  const api = await call.api();
  const { text } = await api.put(`/admin/failure-groups/${encodeURIComponent(group)}/triage`, body);
  if (call.json) call.print(text);
  else call.print(state === "open" ? `${group} is open again` : `${group} is ${state}`);
  return exitCodes.ok.code;
}
