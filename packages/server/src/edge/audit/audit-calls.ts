/** Decides which calls leave an audit record, for every operation and every transport. */
import { type ErrorCode, errors } from "@codeq/protocol";
import type { TenantId } from "@codeq/queue";
import { everyTenant } from "../access/identity.ts";
import type { Answer, Call, Operation, Server } from "../operation.ts";
import { type Actor, type AuditEvent, auditEventOf } from "./audit-record.ts";

/** Refusals because of the caller or its permissions, not because of the content of a request. */
const aboutAccess: ReadonlySet<ErrorCode> = new Set([
  ...(Object.keys(errors) as ErrorCode[]).filter((code) => errors[code].grpc === "UNAUTHENTICATED"),
  ...(["admin_only", "operator_only", "invalid_tenant"] as const),
  ...(["missing_scope", "event_type_not_allowed"] as const),
]);

type Parts = Pick<Server, "audit" | "events">;

interface Refused {
  readonly action: string;
  readonly code: ErrorCode;
  readonly target?: string | undefined;
}

/** Counts a refusal that is about access; other refusals leave no record. */
export function auditRefusal(parts: Parts, actor: Actor, refused: Refused): void {
  if (!aboutAccess.has(refused.code)) return;
  parts.events.accessRefused(refused.code);
  parts.audit.tally(auditEventOf(actor, { ...refused, outcome: "refused" }));
}

interface Finished<Input, Output> {
  readonly operation: Operation<Input, Output>;
  readonly call: Omit<Call, "admission">;
  readonly input: Input;
}

/** Records an answered call; undefined if there is nothing to wait for. */
export function auditCall<Input, Output>(
  parts: Parts,
  finished: Finished<Input, Output>,
  answer: Answer<Output>,
): Promise<void> | undefined {
  if (answer.ok) return auditSuccess(parts, finished, answer.value);
  auditFailure(parts, finished, answer.code);
  return undefined;
}

function auditSuccess<Input, Output>(
  parts: Parts,
  { operation, call, input }: Finished<Input, Output>,
  output: Output,
): Promise<void> | undefined {
  const { name: action, audit: rule } = operation;
  for (const code of operation.refusalsIn?.(output) ?? []) {
    auditRefusal(parts, call, { action, code });
  }
  if (rule === undefined || rule.byItself === true) return undefined;
  const event = (tenantId?: TenantId): AuditEvent => {
    const [target, detail] = [rule.target?.(input), rule.detail?.(output)];
    return auditEventOf(call, { action, target, detail, tenantId, outcome: "ok" });
  };
  if (rule.of === "all") return parts.audit.record(event());
  // A page may read every second, so reads are counted instead of recorded one by one.
  if (operation.access === "operator") parts.audit.tally(event(everyTenant));
  else if (call.identity.homeTenantId !== undefined) parts.audit.tally(event());
  return undefined;
}

function auditFailure<Input, Output>(
  parts: Parts,
  { operation, call, input }: Finished<Input, Output>,
  code: ErrorCode,
): void {
  const { name: action, audit: rule } = operation;
  const target = rule?.target?.(input);
  if (aboutAccess.has(code)) auditRefusal(parts, call, { action, code, target });
  else if (rule?.of === "all") {
    const outcome = code === "internal" ? "failed" : "refused";
    parts.audit.tally(auditEventOf(call, { action, code, target, outcome }));
  }
}
