/** `dlq triage`: what was decided about a failure group. */
import type { Given } from "@codeq/client/command-line";
import type { Call } from "../call.ts";
import { tell } from "./contract-commands.ts";

type Body = Given<"PUT /admin/failure-groups/:id/triage">["body"];

export function run(call: Call): Promise<number> {
  const [id, state] = [call.word(0), call.word(1) as Body["state"]];
  const snoozeMs = call.options.durationMs("for");
  const body = {
    state,
    snoozeSeconds: snoozeMs === undefined ? undefined : Math.ceil(snoozeMs / 1000),
    reason: call.options.text("reason"),
  };
  return tell(call, ["PUT /admin/failure-groups/:id/triage", { params: { id }, body }], () =>
    state === "open" ? `${id} is open again` : `${id} is ${state}`,
  );
}
