/** The whole id of a task for a part of it, as `tail` and `tasks` print it. */
import type { Call } from "../call.ts";

const idChars = 36;

export async function wholeId(call: Call, text: string): Promise<string> {
  if (text.length >= idChars) return text;
  const api = await call.api();
  const { text: found } = await api.get(`/admin/tasks/${encodeURIComponent(text)}`);
  return (JSON.parse(found) as { readonly task: { readonly id: string } }).task.id;
}
