/**
 * From claims to an identity: tenant, roles, scopes and commands. A claim of the wrong type refuses the
 * token; treating the claim as missing could allow more than was intended.
 */
import type { ErrorCode } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import {
  adminScope,
  anyEventType,
  createScope,
  hiddenPayloadsScope,
  type Identity,
  operatorScope,
  viewerScope,
  workerScopes,
} from "./identity.ts";
import { tenantOf } from "./tenant.ts";
import type { Claims } from "./token-provider.ts";
import { workerIdOf } from "./worker-id.ts";

export type Authenticated = Outcome<Identity, ErrorCode>;

export function producerOf(claims: Claims): Authenticated {
  return identityOf(claims);
}

export function workerOf(claims: Claims): Authenticated {
  if (claims.eventTypes.length === 0) return refuse("missing_event_types");
  if (claims.scopes.length === 0) return refuse("missing_worker_scope");
  return identityOf(claims);
}

/** A producer that may work as well: everything that a worker may, in its own tenant. */
export function producerAsWorkerOf(claims: Claims): Authenticated {
  const producer = identityOf(claims);
  if (!producer.ok || isOnlyViewer(producer.value)) return producer;
  const scopes = new Set([...producer.value.scopes, ...workerScopes]);
  return accept({ ...producer.value, scopes, eventTypes: [anyEventType] });
}

function isOnlyViewer({ isViewer, isAdmin }: Identity): boolean {
  return isViewer && !isAdmin;
}

/** Readers need no scope, but a worker that may do nothing at all may not read either. */
export function readerOf(claims: Claims): Authenticated {
  return claims.eventTypes.length === 0 ? refuse("invalid_token") : identityOf(claims);
}

function identityOf(claims: Claims): Authenticated {
  const { subject, raw, expiresMs, issuedBy, isRevoked, apiKeyId } = claims;
  const tenantId = tenantOf(subject, raw);
  if (tenantId === undefined) return refuse("invalid_tenant");
  const roles = rolesOf(raw);
  const creates = commandsOf(claims);
  if (roles === undefined || creates === undefined) return refuse("invalid_claims");
  const isOperator = roles.includes("operator") || claims.scopes.includes(operatorScope);
  const isAdmin = isOperator || roles.includes("admin") || claims.scopes.includes(adminScope);
  const isViewer = isAdmin || roles.includes("viewer") || claims.scopes.includes(viewerScope);
  return accept({
    subject,
    tenantId,
    expiresMs,
    issuedBy,
    isRevoked,
    apiKeyId,
    isOperator,
    isAdmin,
    isViewer,
    hidesPayloads: roles.includes("payloads-hidden") || claims.scopes.includes(hiddenPayloadsScope),
    workerId: workerIdOf(subject, ""),
    scopes: scopesOf(claims, isViewer && !isAdmin),
    eventTypes: claims.eventTypes.map((each) => each.toLowerCase()),
    creates: creates.has(anyEventType) ? undefined : creates,
    hasRole: roles.length > 0,
  });
}

/** A token that names none of our scopes was made without them in mind, and may create, unless it only looks. */
function scopesOf({ scopes }: Claims, onlyLooks: boolean): ReadonlySet<string> {
  const isLimited = onlyLooks || scopes.some((scope) => scope.startsWith("codeq:"));
  return new Set(isLimited ? scopes : [...scopes, createScope]);
}

/** `role` is one, `roles` are several. Undefined when they are malformed. */
function rolesOf({ role, roles }: Claims["raw"]): readonly string[] | undefined {
  const named = [role ?? [], roles ?? []].flat();
  return isTextList(named) ? named.map((each) => each.trim().toLowerCase()) : undefined;
}

/** What may be created: the commands of the token, else its event types, else everything. */
function commandsOf({ raw, eventTypes }: Claims): ReadonlySet<string> | undefined {
  const unlimited = eventTypes.length === 0 ? [anyEventType] : eventTypes;
  const { commands = unlimited } = raw;
  if (!isTextList(commands)) return undefined;
  return new Set(commands.map((command) => command.trim().toLowerCase()));
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
