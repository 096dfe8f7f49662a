/**
 * The shape of an operation: everything that every transport needs to know about a verb, without
 * bytes and without keys.
 */
import { type ErrorCode, errors } from "@codeq/protocol";
import type { ApiKeys } from "../access/api-keys.ts";
import type { AccessKind } from "../access/authenticate.ts";
import type { Identity, Scope } from "../access/identity.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import type { ArtifactFiles } from "../store/artifact-files.ts";
import type { Events } from "../telemetry/events.ts";

export interface Refusal {
  readonly ok: false;
  readonly code: ErrorCode;
  /** Says more than the table's text does. */
  readonly text: string;
}

export type Answer<T> = { readonly ok: true; readonly value: T } | Refusal;

export function refusal(code: ErrorCode, text: string = errors[code].text): Refusal {
  return { ok: false, code, text };
}

/** What an operation may use of the server. */
export interface Server {
  readonly broker: Broker;
  readonly clock: Clock;
  readonly events: Events;
  readonly artifacts: ArtifactFiles;
  readonly apiKeys: ApiKeys;
  readonly config: Config;
}

/** What is known about one call. */
export interface Call {
  readonly identity: Identity;
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal | undefined;
}

export interface Operation<Input, Output> {
  /** Names it in metrics and logs. */
  readonly name: string;
  readonly access: AccessKind;
  readonly scope: Scope | undefined;
  /** An operator may name all tenants at once; the tenant of the call is `everyTenant` then. */
  readonly forEveryTenant?: true;
  readonly run: (server: Server, call: Call, input: Input) => Promise<Answer<Output>>;
}
