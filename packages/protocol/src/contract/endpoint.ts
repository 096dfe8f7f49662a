/**
 * The calls of the HTTP API, each written once, in one file per resource beside this one. The server binds an operation
 * to each endpoint and derives the route from it; clients call an endpoint by its key, such as `GET /admin/topics`.
 * CONTRIBUTING.md says how to add a resource, an operation or a field.
 */
import { type ErrorCode, errors } from "../errors.ts";
import { limits } from "../limits.ts";
import {
  decimal,
  type Fields,
  list,
  type ObjectShape,
  object,
  only,
  type Shape,
  text,
  whole,
} from "./shape.ts";

export interface Endpoint {
  /** Method, and path below `/v1/codeq`. */
  readonly key: `${Method} /${string}`;
  /** Names it in the document; in the server, its operation has the same name. */
  readonly name: string;
  /** What metrics and the audit trail call it; by default its name with underscores. */
  readonly operation?: string;
  readonly access: "producer" | "worker" | "either" | "viewer" | "admin" | "operator";
  readonly scope?: `codeq:${Verb}`;
  /** What it does, in one line without a period. */
  readonly summary: string;
  readonly about?: string;
  readonly params?: Fields;
  readonly query?: Fields;
  readonly body?: ObjectShape;
  /** A request without a body is fine. */
  readonly bodyOptional?: true;
  /** What the text for a body that cannot be read begins with. */
  readonly invalidBody?: string;
  readonly bodyBytesMax?: number;
  /** What to do instead of sending a body that is too large. */
  readonly forLargeBodies?: string;
  /** The body is a file. */
  readonly isUpload?: true;
  /** How parameters and fields beyond their bounds are refused. */
  readonly outOfBounds?: OutOfBounds;
  /** Clients that ask for it are redirected to the leader. */
  readonly redirects?: true;
  /** Pages of other sites may call it, with a token. */
  readonly isCrossOrigin?: true;
  /** By status. An operation that says nothing else answers with the first. */
  readonly replies: Readonly<Record<number, Reply>>;
  /** What it may be refused with beside what all endpoints like it may be refused with. */
  readonly refusals?: readonly ErrorCode[];
}

export type Method = "GET" | "POST" | "PATCH" | "DELETE" | "PUT";
type Verb = "create" | "claim" | "heartbeat" | "abandon" | "nack" | "result" | "subscribe";

/** Without a shape it is empty, or what its type says. */
export interface Reply {
  readonly about: string;
  readonly shape?: Shape & { readonly name: string };
  readonly type?: "text/event-stream" | "application/octet-stream";
  /** Headers that only this reply has, with their meaning. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface OutOfBounds {
  readonly code: ErrorCode;
  readonly say: (field: string, rule: string) => string;
  /** The answer also names the field for programs. */
  readonly namesField?: true;
}

export const invalidArgument: OutOfBounds = {
  code: "invalid_argument",
  say: (field, rule) => `invalid '${field}' (${rule})`,
};

/** Why one of several items was refused, for programs. */
export const errorCode = text("", { oneOf: Object.keys(errors) as ErrorCode[] });

const isOptional = { isOptional: true } as const;
/** Fields that some refusals have beside their text. */
export const errorDetails = {
  operation: text("", isOptional),
  scope: text("", isOptional),
  quota: text("", isOptional),
  limit: decimal("", isOptional),
  current: decimal("", isOptional),
  retryAfterSeconds: whole("", isOptional),
  bytes: whole("", isOptional),
  field: text("Which field of the policy is invalid.", isOptional),
  taskId: text("The task that the key belongs to.", isOptional),
  key: text("The key that belongs to another task.", isOptional),
  status: text("How the task ended.", isOptional),
  endedAt: text("When the task ended, as RFC 3339.", isOptional),
};

/** The answer to every request that is refused. */
export const Refused = object(
  { error: text("What went wrong and, if possible, what to do."), ...errorDetails },
  { name: "Error" },
);
/** The answer of an endpoint that redirects. */
export const NotLeader = object(
  { error: only("not leader"), leader: text("Its base URL.") },
  { name: "NotLeader" },
);

/** Names each endpoint as it is named in the table. */
export function endpoints<const E extends Readonly<Record<string, Omit<Endpoint, "name">>>>(
  table: E,
): { readonly [K in keyof E & string]: E[K] & { readonly name: K } } {
  const named = Object.entries(table).map(([name, each]) => [name, { ...each, name }]);
  return Object.fromEntries(named);
}

const { pageLimitMax, pageLimitDefault } = limits;

/** The query of a listing that is read page by page. `pattern` is that of `next`. */
export function pageQuery(pattern: RegExp) {
  return {
    limit: whole(`Number of entries per page (default: ${pageLimitDefault}).`, {
      min: 1,
      max: pageLimitMax,
      none: pageLimitDefault,
    }),
    after: text("`next` of the previous page; empty for the first page.", {
      pattern,
      none: "",
      rule: "use 'next' of the previous page",
    }),
  };
}

/** The answer of such a listing, with further fields. */
export function pageOf<
  const Name extends string,
  const Field extends string,
  I extends Shape,
  More extends Fields = Record<never, never>,
>(name: Name, field: Field, item: I, more = {} as More) {
  const next = text("Pass it as `after` to get the next page.", { isOptional: true });
  const fields = { [field]: list(item), next, ...more } as {
    readonly [K in Field]: ReturnType<typeof list<I>>;
  } & { readonly next: typeof next } & NoInfer<More>;
  return object(fields, { name });
}
