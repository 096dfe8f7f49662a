/** `worker start` as the Go command line has it: claims tasks and acknowledges them without any work. */
import { limits } from "@codeq/server/tooling";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exits } from "../exit-codes.ts";
import { HttpTaskSource } from "../work/http-task-source.ts";
import type { TaskEnd } from "../work/task-source.ts";
import { doTasks, type WorkEvent } from "../work/work-loop.ts";

export async function start(call: Call): Promise<number> {
  const { options, host } = call;
  const commands = options.list("events");
  if (commands.length === 0) throw usageError("--events is required");
  const number = (name: string, min: number, max: number): number | undefined =>
    options.wholeNumber(name, { min, max });
  const leaseSeconds = number("lease-seconds", 1, limits.leaseSecondsMax) ?? 60;
  const waitSeconds = number("wait-seconds", 0, 3600) ?? 10;
  const end = endOf(call, options.text("ack") ?? "abandon", number("nack-delay", 0, 1e9) ?? 5);
  const api = await call.api();
  const { workerTokenOf } = api.connection;
  if (!call.json) {
    call.print(`[INFO] Worker connected. Listening... (token: ${workerTokenOf})`);
  }
  await doTasks({
    source: new HttpTaskSource(api, { commands, leaseSeconds, waitSeconds }),
    run: async () => end(),
    clock: host.clock,
    concurrency: number("concurrency", 1, 1000) ?? 1,
    leaseMs: leaseSeconds * 1000,
    graceMs: 0,
    tasksMax: Number.POSITIVE_INFINITY,
    stopped: host.stopped(),
    tell: (event) => tell(call, event),
  });
  return exits.ok.code;
}

function endOf(call: Call, ack: string, delaySeconds: number): () => TaskEnd {
  if (ack === "abandon") return () => ({ as: "abandoned" });
  if (ack === "none") return () => ({ as: "left alone" });
  if (ack === "nack") return () => ({ as: "retry", reason: "", delaySeconds });
  return () => {
    const ts = new Date(call.host.clock.nowMs()).toISOString();
    return { as: "completed", result: JSON.stringify({ handledBy: "codeq-cli", ts }) };
  };
}

function tell(call: Call, event: WorkEvent): void {
  if (event.event === "claimed") {
    const { id, command } = event.task;
    if (call.json) call.printJson({ event: "claimed", id, command });
    else call.print(`[OK] Task claimed: ${id} (${command})`);
  } else if (event.event === "trouble" || event.event === "lost") {
    call.note(`[ERROR] ${event.why}`);
  }
}
