/**
 * The identity of a caller: tenant, roles, scopes and commands, from the claims of its token. A claim of the wrong type
 * refuses the token; treating the claim as missing could allow more than was intended.
 */
import { hash } from "node:crypto";
import { type ErrorCode, limits } from "@codeq/protocol";
import {
  accept,
  type Outcome,
  refuse,
  type TaskId,
  type TenantId,
  type WorkerId,
} from "@codeq/queue";
import { isTextList } from "../../config/auth/auth-blob.ts";
import type { Config } from "../../config/settings.ts";
import type { Call } from "../operation.ts";
import type { ApiKeyId } from "./api-keys/api-key-record.ts";
import type { Claims } from "./token-provider.ts";

export interface Identity {
  readonly subject: string;
  /** The owner of the leases of this caller. */
  readonly workerId: WorkerId;
  readonly tenantId: TenantId;
  /** The own tenant of an operator that acts in another tenant. */
  readonly homeTenantId?: TenantId | undefined;
  readonly scopes: ReadonlySet<string>;
  /** Lower-case commands the caller may work on; `*` stands for all. */
  readonly eventTypes: readonly string[];
  /** Lower-case commands the caller may create tasks of; undefined for all. */
  readonly creates: ReadonlySet<string> | undefined;
  /** May read everything in its tenant and change nothing; admins are viewers too. */
  readonly isViewer: boolean;
  /** Never sees payloads, results and artifacts. */
  readonly hidesPayloads: boolean;
  /** Administers its own tenant. */
  readonly isAdmin: boolean;
  /** Administers every tenant; is an admin too. */
  readonly isOperator: boolean;
  /** Whether the token has a role; `allowRoleHeader` gives a role only to a token without one. */
  readonly hasRole: boolean;
  /** When the token expires; undefined for never. */
  readonly expiresMs: number | undefined;
  /** The issuer of the token, for logs and records. */
  readonly issuedBy: string;
  /** The id of the API key, if the token is one. */
  readonly apiKeyId?: ApiKeyId | undefined;
  /** Whether the token has been revoked since it was accepted. */
  readonly isRevoked: () => boolean;
  /** The only task that the caller may watch; undefined for all callers but browsers with a public token. */
  readonly onlyTask?: TaskId | undefined;
}

export const workerScopes = [
  "codeq:claim",
  "codeq:heartbeat",
  "codeq:abandon",
  "codeq:nack",
  "codeq:result",
  "codeq:subscribe",
] as const;

export const createScope = "codeq:create";
export const viewerScope = "codeq:viewer";
export const hiddenPayloadsScope = "codeq:payloads-hidden";
export const adminScope = "codeq:admin";
export const operatorScope = "codeq:operator";
export const anyEventType = "*";

/** The scopes that operations may require. */
export type Scope = (typeof workerScopes)[number] | typeof createScope;

export type Authenticated = Outcome<Identity, ErrorCode>;

export type TenantFallback = Config["tenantFallback"];

export function producerOf(claims: Claims, fallback: TenantFallback = "subject"): Authenticated {
  return identityOf(claims, fallback);
}

export function workerOf(claims: Claims, fallback: TenantFallback = "subject"): Authenticated {
  if (claims.eventTypes.length === 0) return refuse("missing_event_types");
  if (claims.scopes.length === 0) return refuse("missing_worker_scope");
  return identityOf(claims, fallback);
}

/** A producer that has all rights of a worker in its own tenant. */
export function producerAsWorkerOf(
  claims: Claims,
  fallback: TenantFallback = "subject",
): Authenticated {
  const producer = identityOf(claims, fallback);
  if (!producer.ok || isOnlyViewer(producer.value)) return producer;
  const scopes = new Set([...producer.value.scopes, ...workerScopes]);
  return accept({ ...producer.value, scopes, eventTypes: [anyEventType] });
}

function isOnlyViewer({ isViewer, isAdmin }: Identity): boolean {
  return isViewer && !isAdmin;
}

/** Readers need no scope, but a worker without event types may not read. */
export function readerOf(claims: Claims, fallback: TenantFallback = "subject"): Authenticated {
  return claims.eventTypes.length === 0 ? refuse("invalid_token") : identityOf(claims, fallback);
}

function identityOf(claims: Claims, fallback: TenantFallback): Authenticated {
  const { subject, raw, expiresMs, issuedBy, isRevoked, apiKeyId } = claims;
  const tenantId = tenantOf(subject, raw, fallback);
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

/** A token without scopes of codeQ was issued without them in mind, and may create unless it is read-only. */
function scopesOf({ scopes }: Claims, onlyLooks: boolean): ReadonlySet<string> {
  const isLimited = onlyLooks || scopes.some((scope) => scope.startsWith("codeq:"));
  return new Set(isLimited ? scopes : [...scopes, createScope]);
}

/** The claim `role` is one role, `roles` is a list. Undefined if they are malformed. */
function rolesOf({ role, roles }: Claims["raw"]): readonly string[] | undefined {
  const named = [role ?? [], roles ?? []].flat();
  return isTextList(named) ? named.map((each) => each.trim().toLowerCase()) : undefined;
}

/** The commands that the token may create: its `commands`, otherwise its event types, otherwise all. */
function commandsOf({ raw, eventTypes }: Claims): ReadonlySet<string> | undefined {
  const unlimited = eventTypes.length === 0 ? [anyEventType] : eventTypes;
  const { commands = unlimited } = raw;
  if (!isTextList(commands)) return undefined;
  return new Set(commands.map((command) => command.trim().toLowerCase()));
}

const tenantClaims = ["tid", "tenantId", "tenant_id", "organizationId", "organization_id"];

export function isTenantId(text: string): text is TenantId {
  return limits.tenantPattern.test(text);
}

/** The tenant of all tokens without a tenant, if they share one. */
const sharedTenant = "shared" as TenantId;

/** Stands for all tenants in calls of operators; not a valid name of a tenant. */
export const everyTenant = "*" as TenantId;

/**
 * The tenant of a token comes from the claims and never from the request. Every tenant claim that is present must be
 * well-formed, and all of them must agree; a bad claim is never ignored in favour of another. Without a tenant claim,
 * the setting decides: each subject is a tenant of its own, or all of them share one.
 */
function tenantOf(
  subject: string,
  claims: Readonly<Record<string, unknown>>,
  fallback: TenantFallback,
): TenantId | undefined {
  const present = tenantClaims.filter((name) => claims[name] !== undefined);
  if (present.length === 0) return fallback === "shared" ? sharedTenant : tenantOfSubject(subject);
  const values = present.map((name) => claims[name]);
  const first = values[0];
  if (typeof first !== "string" || !isTenantId(first.trim())) return undefined;
  const tenant = first.trim();
  const agreed = values.every((value) => typeof value === "string" && value.trim() === tenant);
  return agreed ? (tenant as TenantId) : undefined;
}

/** A subject that cannot be the name of a tenant, such as an e-mail address, gets a name that is derived from it. */
function tenantOfSubject(subject: string): TenantId | undefined {
  const name = subject.trim();
  if (isTenantId(name)) return name;
  if (!printablePattern.test(name)) return undefined;
  return `subject-${hash("sha256", name).slice(0, 40)}` as TenantId;
}

const printablePattern = /^[^\p{C}]{1,512}$/u;

/**
 * The owner of a lease. A worker may choose a name, but the name is bound to the subject of its token: workers with
 * different subjects never have the same id.
 *
 *   no name, or the subject itself   the subject
 *   a name                           ~<name, escaped>@<subject>
 *
 * Escaped names contain no @, so the first one ends the name; subjects that begin with a tilde are
 * written in the second form, with an empty name.
 */
export function workerIdOf(subject: string, name: string): WorkerId {
  if (name !== "" && name !== subject) {
    return `~${encodeURIComponent(name)}@${subject}` as WorkerId;
  }
  return (subject.startsWith("~") ? `~@${subject}` : subject) as WorkerId;
}

/** The tenant that a call of an administrator is about; undefined for all tenants. */
export function askedTenant({ identity }: Pick<Call, "identity">): TenantId | undefined {
  return identity.tenantId === everyTenant ? undefined : identity.tenantId;
}
