/** The page of a list that a request asks for. */
import type { PageInput } from "../page-limit.ts";
import type { HttpRequest } from "./route.ts";

export function pageIn({ query }: HttpRequest): PageInput {
  const { limit, after = "" } = query;
  return { limit: limit === undefined ? undefined : Number(limit), after: String(after) };
}
