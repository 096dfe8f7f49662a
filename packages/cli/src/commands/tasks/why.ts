/** `why`: explains why a task does not run, or why a worker gets no tasks. */
import type { ReplyOf } from "@codeq/client/command-line";
import { print } from "../../api/contract-commands.ts";
import { taskOf } from "../../api/task-view.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { count, counted, localMoment } from "../../terminal/units.ts";

type TaskExplanation = ReplyOf<"GET /tasks/:id/explain">;
type WorkerExplanation = ReplyOf<"GET /admin/workers/:workerId/explain">;

export async function run(call: Call): Promise<void> {
  const workerId = call.options.text("worker-id");
  const [id] = call.words;
  if ((id === undefined) === (workerId === undefined)) {
    throw usageError("give the id of a task, or --worker-id and the id of a worker");
  }
  if (workerId !== undefined) {
    const params = { workerId };
    return print(call, ["GET /admin/workers/:workerId/explain", { params }], linesOfWorker);
  }
  const params = await taskOf(call);
  return print(call, ["GET /tasks/:id/explain", { params }], linesOfTask);
}

function linesOfTask(explanation: TaskExplanation): string {
  const { taskId, command, place, why, dueAt, ahead, startsIn, queue, workers } = explanation;
  const lines = [`${taskId} is ${place} in ${command}: ${why}`];
  if (dueAt !== undefined) lines.push(`  due       ${localMoment(dueAt)}`);
  if (ahead !== undefined) {
    const about = ahead.isAtLeast ? "at least " : ahead.isEstimate === true ? "about " : "";
    const total = count(ahead.higher + ahead.older);
    lines.push(`  ahead     ${about}${total} (${count(ahead.higher)} of a higher priority)`);
  }
  if (startsIn !== undefined) {
    lines.push(`  begins in ${startsIn.fromSeconds} to ${startsIn.toSeconds} s`);
  }
  const rate = queue.endedPerMinute;
  const speed = rate === undefined ? "" : `, ${count(rate)} ended in a minute`;
  const where = `${count(queue.ready)} ready, ${count(queue.delayed)} delayed`;
  lines.push(`  queue     ${where}, ${count(queue.inProgress)} in progress${speed}`);
  lines.push(`  workers   ${workers.connected} connected, ${workers.asking} asking for its queue`);
  return lines.join("\n");
}

function linesOfWorker(explanation: WorkerExplanation): string {
  const { workerId, why, leases, claims, streams, asksFor, queues } = explanation;
  const lines = [`${workerId}: ${why}`];
  lines.push(`  has       ${counted(leases, "lease")}, ${counted(streams, "stream")}`);
  const what = asksFor === "all" ? "every queue" : (asksFor ?? []).join(", ");
  if (asksFor !== undefined) lines.push(`  asks for  ${what} (${counted(claims, "claim")})`);
  for (const { command, rule, ready, delayed, inProgress } of queues) {
    const counts = `${count(ready)} ready, ${count(delayed)} delayed, ${count(inProgress)} in progress`;
    lines.push(`  ${command}: ${rule}, ${counts}`);
  }
  return lines.join("\n");
}
