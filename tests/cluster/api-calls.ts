/** What the tests of clusters read in answers. */
import type { Reply } from "../e2e/api-client.ts";

export type { ApiClient } from "../e2e/api-client.ts";

/** The status of a result. */
export function resultOf({ status, text }: Reply): string {
  if (status !== 200) return `${status} ${text}`;
  return (JSON.parse(text) as { result: { status: string } }).result.status;
}
