/** Tasks as administrators see them, and the calls that create, read and change them. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, askWithText, callOf, type Request } from "../api.ts";
import { rawMember } from "../json-lines.ts";
import type { TaskQuery } from "../task-filter.ts";

/** Lists leave out the attempts, the progress and the log. */
export type TaskRow = ReplyOf<"GET /admin/tasks/:id">["task"];
/** The attempts that came back, and that of the worker which has the task or has ended it. */
export function attemptNumber({ attempts = 0, workerId }: TaskRow): number {
  return attempts + (workerId === undefined ? 0 : 1);
}

export type Attempt = NonNullable<TaskRow["attemptHistory"]>[number];
export type TaskPage = ReplyOf<"GET /admin/tasks">;

export function listCall(query: TaskQuery, page: { after?: string | undefined; limit?: number }) {
  return callOf("GET /admin/tasks", { query: { ...query, ...page } });
}

export const exportMax = 10_000;

export async function allTasks(query: TaskQuery): Promise<readonly TaskRow[]> {
  const found: TaskRow[] = [];
  let after: string | undefined;
  do {
    const { tasks, next } = await ask(listCall(query, { after, limit: 200 }));
    found.push(...tasks);
    after = next;
  } while (after !== undefined && found.length < exportMax);
  return found.slice(0, exportMax);
}

export function inspectCall(id: string) {
  return callOf("GET /admin/tasks/:id", { params: { id } });
}

export type InspectedTask = Awaited<ReturnType<typeof inspectTask>>;

export async function inspectTask(id: string) {
  const { answer, text } = await askWithText(inspectCall(id));
  return { ...answer, resultText: rawMember(text, ["result", "result"]) };
}

/** The payload is sent as its JSON text, so that its numbers stay exactly as they were written. */
export function createCall(
  command: string,
  payload: string,
  options: { readonly priority?: number; readonly delaySeconds?: number } = {},
): Request<ReplyOf<"GET /tasks/:id">> {
  const body = withPayload({ command, ...options }, payload);
  return { method: "POST", path: "/v1/codeq/tasks", body };
}

export function withPayload(fields: object, payload: string): string {
  const others = JSON.stringify(fields).slice(0, -1);
  return `${others}${others === "{" ? "" : ","}"payload":${payload}}`;
}

/** The name of the key that a payload or a result is encrypted with; undefined for others. */
export function encryptionKeyOf(json: string): string | undefined {
  if (!json.includes('"$encrypted"') || rawMember(json, ["$encrypted"]) === undefined)
    return undefined;
  return rawMember(json, ["key"])?.slice(1, -1);
}
