/** A task as a node shows it. */
import type { Shown } from "./ledger.ts";
import type { Reply } from "./load.ts";

/** Undefined when the node does not answer. */
type AskNode = (path: string) => Promise<Reply | undefined>;

/**
 * Undefined only when the node says that there is no such task. `/result` alone does not tell: it answers 404 for
 * tasks that have not ended, too.
 */
export async function shownBy(ask: AskNode, id: string): Promise<Shown | undefined> {
  const reply = await ask(`/tasks/${id}/result`);
  if (reply === undefined || reply.status >= 500) return withoutAnswer;
  if (reply.status === 404) return await unfinished(ask, id);
  const { result, task } = reply.json as {
    readonly result?: { readonly status: string; readonly result?: { readonly by?: number } };
    readonly task?: { readonly status: string };
  };
  return {
    status: result?.status ?? task?.status ?? String(reply.status),
    by: result?.result?.by,
  };
}

/** Nobody answers, or the shard of the task has no leader at the moment: the node says nothing about the task. */
export const withoutAnswer: Shown = { status: "without an answer", by: undefined };

async function unfinished(ask: AskNode, id: string): Promise<Shown | undefined> {
  const reply = await ask(`/tasks/${id}`);
  if (reply === undefined || reply.status >= 500) return withoutAnswer;
  if (reply.status === 404) return undefined;
  const { status = String(reply.status) } = reply.json as { readonly status?: string };
  return { status, by: undefined };
}
