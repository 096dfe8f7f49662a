/** The content of an audit record. Texts that callers choose are truncated. */
import type { TenantId } from "@codeq/queue";
import type { Identity } from "../access/identity.ts";
import type { AuditEvent } from "./audit-record.ts";

/** From where a call came. */
export interface Origin {
  readonly address: string;
  readonly requestId: string;
}

export interface Actor {
  /** Undefined for those who were refused before they were known. */
  readonly identity?: Identity | undefined;
  /** Undefined for what came from inside. */
  readonly from?: Origin | undefined;
}

export interface Happening extends Pick<AuditEvent, "action" | "outcome"> {
  readonly target?: string | undefined;
  readonly detail?: string | undefined;
  readonly code?: string | undefined;
  /** Whom it concerns, when that is not the tenant that the caller acts in. */
  readonly tenantId?: TenantId | undefined;
}

const textCharsMax = 256;

export function auditEventOf({ identity, from }: Actor, what: Happening): AuditEvent {
  return {
    action: what.action,
    target: cut(what.target ?? ""),
    detail: cut(what.detail ?? ""),
    outcome: what.outcome,
    code: what.code ?? "",
    tenantId: what.tenantId ?? identity?.tenantId ?? ("" as TenantId),
    subject: cut(identity?.subject ?? ""),
    homeTenantId: identity?.homeTenantId ?? identity?.tenantId ?? "",
    issuedBy: cut(identity?.issuedBy ?? ""),
    apiKeyId: identity?.apiKeyId ?? "",
    address: cut(from?.address ?? ""),
    requestId: cut(from?.requestId ?? ""),
  };
}

function cut(text: string): string {
  return text.slice(0, textCharsMax).toWellFormed();
}
