/** Tasks as administrators see them, and what can be done to one. */
import { ask, askText } from "../api.ts";
import { rawMember } from "../json-lines.ts";
import type { StateName } from "../parts/basics.tsx";

/** One time that a worker had the task. */
export interface Attempt {
  readonly workerId: string;
  readonly leaseToken: number;
  readonly startedAt: string;
  readonly endedAt?: string;
  readonly outcome: string;
  readonly error?: string;
  readonly delaySeconds?: number;
}

export interface TaskRow {
  readonly id: string;
  readonly command: string;
  readonly place: "ready" | "delayed" | "leased" | "dead" | "done" | "failed";
  readonly status: string;
  readonly priority?: number;
  readonly attempts?: number;
  readonly maxAttempts: number;
  readonly error?: string;
  readonly workerId?: string;
  readonly tenantId?: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly endedAt?: string;
  readonly expiresAt?: string;
  readonly dueAt?: string;
  readonly leaseUntil?: string;
  readonly leaseToken?: number;
  readonly cancelledUntil?: string;
  readonly replays?: number;
  readonly tags?: readonly string[];
  readonly payload?: string;
  readonly payloadOmitted?: boolean;
  readonly idempotencyKey?: string;
  readonly webhook?: string;
  readonly traceParent?: string;
  readonly replayOf?: string;
  readonly replayedAs?: string;
  /** The earliest first; only of a task that was asked for by itself. */
  readonly attemptHistory?: readonly Attempt[];
  readonly attemptsOmitted?: number;
  /** What its worker said last. */
  readonly progress?: { readonly percent: number; readonly text: string; readonly at: string };
  readonly logs?: readonly { readonly at: string; readonly text: string }[];
}

export interface TaskPage {
  readonly tasks: readonly TaskRow[];
  readonly next?: string;
  readonly total?: number;
  readonly scanned: number;
}

export function stateOf({ place, error }: TaskRow): StateName {
  return place === "failed" && error === "CANCELLED" ? "cancelled" : place;
}

export const tasksPath = "/v1/codeq/admin/tasks";

export function listTasks(
  query: Readonly<Record<string, string>>,
  page: { readonly after?: string | undefined; readonly limit?: number } = {},
): Promise<TaskPage> {
  const { after, limit = 50 } = page;
  return ask<TaskPage>({ path: tasksPath, query: { ...query, after, limit: String(limit) } });
}

/** At most so many are put into a file. */
export const exportMax = 10_000;

export async function allTasks(
  query: Readonly<Record<string, string>>,
): Promise<readonly TaskRow[]> {
  const found: TaskRow[] = [];
  let after: string | undefined;
  do {
    const { tasks, next } = await listTasks(query, { after, limit: 200 });
    found.push(...tasks);
    after = next;
  } while (after !== undefined && found.length < exportMax);
  return found.slice(0, exportMax);
}

export interface InspectedTask {
  readonly task: TaskRow;
  readonly result?: {
    readonly status: string;
    readonly error?: string;
    readonly completedAt: string;
    readonly artifacts?: readonly {
      readonly name: string;
      readonly url: string;
      readonly bytes?: number;
      readonly contentType?: string;
      /** Of a file that the server keeps; others are links. */
      readonly sha256?: string;
    }[];
  };
  /** As the worker sent it. */
  readonly resultText: string | undefined;
}

export function taskPath(id: string, verb = ""): string {
  return `${tasksPath}/${encodeURIComponent(id)}${verb}`;
}

export async function inspectTask(id: string): Promise<InspectedTask> {
  const text = await askText({ path: taskPath(id) });
  const resultText = rawMember(text, ["result", "result"]);
  return { ...(JSON.parse(text) as InspectedTask), resultText };
}
