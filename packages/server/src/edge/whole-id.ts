/** Finds the task for an id, or for the beginning or the end of one. */
import type { TaskId } from "@codeq/queue";
import { type Answer, type Call, refusal, type Server } from "./operation.ts";
import { idPartProblem, isIdPart } from "./task-filter-input.ts";

const idChars = 36;
/** Pages that are looked through before a part counts as unknown. */
const pagesMax = 10;

export async function wholeId(
  { broker }: Pick<Server, "broker">,
  { identity }: Pick<Call, "identity">,
  text: string,
): Promise<Answer<TaskId>> {
  if (!isIdPart(text)) return refusal("invalid_argument", `invalid id: it ${idPartProblem}`);
  const idPart = text.toLowerCase();
  if (idPart.length === idChars) return { ok: true, value: idPart as TaskId };
  const wanted = { tenantId: identity.tenantId, filter: { idPart }, order: "newest" } as const;
  const ids: TaskId[] = [];
  let after: string | undefined = "";
  for (let pages = 0; pages < pagesMax && after !== undefined && ids.length < 2; pages++) {
    const found = await broker.find({ ...wanted, after, limit: 2 });
    if (found === undefined) return refusal("overloaded");
    ids.push(...found.tasks.map(({ id }) => id));
    after = found.next;
  }
  const [id, other] = ids;
  if (id === undefined) return refusal("not_found");
  if (other === undefined) return { ok: true, value: id };
  return refusal(
    "ambiguous_id",
    `several tasks match ${idPart}: ${id}, ${other}; pass more characters of the id`,
  );
}
