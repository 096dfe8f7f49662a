/** `pause` and `resume`: stop and resume claims from a queue. */
import type { ReplyOf } from "@codeq/client/command-line";
import { print } from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { localMoment } from "../../terminal/units.ts";

export function pause(call: Call): Promise<void> {
  const params = { command: call.word(0) };
  const given = { params, body: { reason: call.options.text("reason") } };
  return print(
    call,
    ["POST /admin/queues/:command/pause", given],
    () => `paused ${params.command}; resume it with codeq resume ${params.command}`,
  );
}

export function resume(call: Call): Promise<void> {
  const params = { command: call.word(0) };
  return print(
    call,
    ["POST /admin/queues/:command/resume", { params }],
    () => `resumed ${params.command}`,
  );
}

type Pause = ReplyOf<"POST /admin/queues/:command/pause">;

/** A sentence for people. */
export function pauseLine({ command, by, at, reason }: Pause): string {
  const why = reason === undefined ? "" : `: ${reason}`;
  return `${command} is paused by ${by} since ${localMoment(at)}${why}`;
}
