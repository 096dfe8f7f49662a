/** `why`: explains why a task does not run, or why a worker gets no tasks. */
import { wholeId } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { count, counted, localMoment } from "../terminal/units.ts";

interface TaskExplanation {
  readonly taskId: string;
  readonly command: string;
  readonly place: string;
  readonly why: string;
  readonly dueAt?: string;
  readonly ahead?: {
    readonly higher: number;
    readonly older: number;
    readonly isAtLeast: boolean;
    readonly isEstimate?: true;
  };
  readonly startsIn?: { readonly fromSeconds: number; readonly toSeconds: number };
  readonly queue: {
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly endedPerMinute?: number;
  };
  readonly workers: { readonly asking: number; readonly connected: number };
}

interface WorkerExplanation {
  readonly workerId: string;
  readonly why: string;
  readonly leases: number;
  readonly claims: number;
  readonly streams: number;
  readonly asksFor?: readonly string[] | "all";
  readonly queues: readonly {
    readonly command: string;
    readonly rule: string;
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
  }[];
}

export async function run(call: Call): Promise<void> {
  const worker = call.options.text("worker-id");
  const [id] = call.words;
  if ((id === undefined) === (worker === undefined)) {
    throw usageError("give the id of a task, or --worker-id and the id of a worker");
  }
  const api = await call.api();
  const path =
    worker === undefined
      ? `/tasks/${encodeURIComponent(await wholeId(call, id ?? ""))}/explain`
      : `/admin/workers/${encodeURIComponent(worker)}/explain`;
  const { text } = await api.get(path);
  if (call.json) return call.print(text);
  const lines =
    worker === undefined
      ? linesOfTask(JSON.parse(text) as TaskExplanation)
      : linesOfWorker(JSON.parse(text) as WorkerExplanation);
  for (const line of lines) call.print(line);
}

function linesOfTask(explanation: TaskExplanation): string[] {
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
  return lines;
}

function linesOfWorker(explanation: WorkerExplanation): string[] {
  const { workerId, why, leases, claims, streams, asksFor, queues } = explanation;
  const lines = [`${workerId}: ${why}`];
  lines.push(`  has       ${counted(leases, "lease")}, ${counted(streams, "stream")}`);
  const what = asksFor === "all" ? "every queue" : (asksFor ?? []).join(", ");
  if (asksFor !== undefined) lines.push(`  asks for  ${what} (${counted(claims, "claim")})`);
  for (const { command, rule, ready, delayed, inProgress } of queues) {
    const counts = `${count(ready)} ready, ${count(delayed)} delayed, ${count(inProgress)} in progress`;
    lines.push(`  ${command}: ${rule}, ${counts}`);
  }
  return lines;
}
