/**
 * The API as an OpenAPI 3.1 document, generated from the routes of the server. Only what all routes have in
 * common is added here: who may call, and the refusals that any call can get.
 */

import { type ErrorCode, errors } from "@codeq/protocol";
import { api, Health, NotLeader, Refused } from "@codeq/protocol/api";
import { isForAdmins } from "../../access/authenticator.ts";
import { queryOf } from "../calls.ts";
import type { AnyRoute } from "../route.ts";
import { answerSchemas, type JsonSchema, ref } from "./contract-schema.ts";

interface OpenApiOptions {
  /** The version of the server. */
  readonly version: string;
  /** Fields that are not known are passed over. */
  readonly isLenient: boolean;
}

export interface OpenApi {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly securitySchemes: Readonly<Record<string, object>>;
  };
  readonly [more: string]: unknown;
}

interface OpenApiOperation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, OpenApiResponse>>;
  readonly [more: string]: unknown;
}

interface OpenApiResponse {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

const jsonType = "application/json";

/** Readers must ignore unknown fields in answers, because fields are added. */
export const replySchemas: Readonly<Record<string, JsonSchema>> = answerSchemas(api, [
  Refused,
  NotLeader,
  Health,
]);

export function openApiOf(routes: readonly AnyRoute[], options: OpenApiOptions): OpenApi {
  const paths: Record<string, Record<string, OpenApiOperation>> = { ...pagePaths };
  for (const each of routes) {
    const path = templateOf(each.path);
    paths[path] = {
      ...paths[path],
      [each.method.toLowerCase()]: operationOf(each, routes, options),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "codeQ",
      version: options.version,
      summary: "A durable task queue for many tenants.",
      description:
        "Producers create tasks, workers claim them under a lease and submit results. " +
        "Refusals carry a stable code in the header `codeq-error`.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "This server." }],
    tags,
    security: [{ token: [] }],
    paths,
    components: {
      schemas: replySchemas,
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description: "An API key, a configured token, or a token of an identity server.",
        },
      },
    },
  };
}

const tags = [
  { name: "producers", description: "Create tasks." },
  { name: "workers", description: "Claim tasks and submit results." },
  { name: "tasks", description: "Look at tasks and results." },
  { name: "administration", description: "For admins of a tenant, and for operators of all." },
  { name: "pages", description: "Without a token, for probes and tools." },
];

function tagOf({ operation }: AnyRoute): string {
  switch (operation.access) {
    case "producer":
      return "producers";
    case "worker":
      return "workers";
    case "either":
      return "tasks";
    case "viewer":
    case "admin":
    case "operator":
      return "administration";
  }
}

/** `/tasks/:id` -> `/tasks/{id}`. */
export function templateOf(path: string): string {
  return path.replace(/:(\w+)/g, "{$1}");
}

/** Who may call a route, in words. */
export function callersOf({ operation: { access, scope } }: AnyRoute): string {
  const needed = scope === undefined ? "" : ` with the scope \`${scope}\``;
  switch (access) {
    case "producer":
      return `producers${needed}`;
    case "worker":
      return `workers${needed}`;
    case "either":
      return "producers and workers of the tenant";
    case "viewer":
      return "viewers and admins of the tenant, and operators";
    case "admin":
      return "admins of the tenant, and operators";
    case "operator":
      return "operators";
  }
}

function operationOf(
  each: AnyRoute,
  routes: readonly AnyRoute[],
  { isLenient }: OpenApiOptions,
): OpenApiOperation {
  const { name, summary, about, body } = each;
  return {
    operationId: name,
    tags: [tagOf(each)],
    summary,
    description: `${about === undefined ? "" : `${about} `}For ${callersOf(each)}.`,
    parameters: parametersOf(each),
    ...(each.isUpload === true ? { requestBody: fileBody } : {}),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: each.bodyOptional !== true,
            content: { [jsonType]: { schema: isLenient ? opened(body.schema) : body.schema } },
          },
        }),
    responses: responsesOf(each, routes),
  };
}

const fileBody = {
  required: true,
  content: { "application/octet-stream": { schema: { type: "string", format: "binary" } } },
};

/** The same schema without a word about other fields. */
function opened(schema: JsonSchema): JsonSchema {
  const entries = Object.entries(schema)
    .filter(([keyword]) => keyword !== "additionalProperties")
    .map(([keyword, value]) => [keyword, openedValue(value)]);
  return Object.fromEntries(entries);
}

function openedValue(value: unknown): unknown {
  const isPlain = typeof value === "object" && value !== null && !Array.isArray(value);
  return isPlain ? opened(value as JsonSchema) : value;
}

function parametersOf(each: AnyRoute): readonly object[] {
  const inPath = [...each.path.matchAll(/:(\w+)/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    description: each.params?.[name]?.about ?? "",
    schema: { minLength: 1, type: "string", ...each.params?.[name]?.schema },
  }));
  const inQuery = Object.entries(queryOf(each)).map(([name, { about, schema }]) => ({
    name,
    in: "query",
    description: about,
    schema,
  }));
  return [...inPath, ...inQuery];
}

function responsesOf(
  each: AnyRoute,
  routes: readonly AnyRoute[],
): Readonly<Record<string, OpenApiResponse>> {
  const replies = Object.entries(each.replies).map(
    ([status, { about, schema, type = jsonType, headers = {} }]): [string, OpenApiResponse] => [
      status,
      {
        description: about,
        headers: { ...everyHeader, ...describedHeaders(headers) },
        ...(schema === undefined && type === jsonType
          ? {}
          : { content: { [type]: { schema: schema === undefined ? events : ref(schema) } } }),
        ...linksOf(each, schema, routes),
      },
    ],
  );
  return Object.fromEntries([...replies, ...refusedWith(each)]);
}

/** From a list to its first item, and from what was created to itself. */
function linksOf(each: AnyRoute, schema: string | undefined, routes: readonly AnyRoute[]): object {
  const pointed = schema === undefined ? undefined : pointerIn(schema);
  const links = routes.flatMap((other) => {
    const name = /^\/:(\w+)$/.exec(other.path.slice(each.path.length))?.[1];
    const isItem = other.method === "GET" && other.path.startsWith(each.path);
    const pointer = name === undefined || !isItem ? undefined : pointed?.(name);
    if (pointer === undefined) return [];
    const parameters = { [name as string]: `$response.body#${pointer}` };
    return [[other.name, { operationId: other.name, parameters }]];
  });
  return links.length === 0 ? {} : { links: Object.fromEntries(links) };
}

/** Where an answer has the value of a parameter: its own field or that of the first item of its list. */
function pointerIn(name: string): (parameter: string) => string | undefined {
  const fields = fieldsIn({ $ref: `#/components/schemas/${name}` });
  const [list, item] = Object.entries(fields)
    .map(([key, { items }]) => [key, fieldsIn((items ?? {}) as JsonSchema)] as const)
    .find(([, inside]) => Object.keys(inside).length > 0) ?? ["", {}];
  return (parameter) => {
    for (const key of [parameter, "id"]) {
      if (Object.hasOwn(fields, key)) return `/${key}`;
      if (Object.hasOwn(item, key)) return `/${list}/0/${key}`;
    }
    return undefined;
  };
}

function fieldsIn({ $ref, properties }: JsonSchema): Readonly<Record<string, JsonSchema>> {
  const named = typeof $ref === "string" ? replySchemas[$ref.replace(/^.*\//, "")] : undefined;
  return (named?.["properties"] ?? properties ?? {}) as Record<string, JsonSchema>;
}

const events: JsonSchema = { type: "string", description: "Server-sent events." };

const everyHeader = {
  "x-request-id": {
    description: "The request id: the caller's own, or a new one.",
    schema: { type: "string" },
  },
};

function describedHeaders(
  headers: Readonly<Record<string, string>>,
): Record<string, { description: string; schema: JsonSchema }> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, description]) => [
      name,
      { description, schema: { type: "string" } },
    ]),
  );
}

function refusedWith(each: AnyRoute): readonly [string, OpenApiResponse][] {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of refusalsOf(each)) {
    const { http } = errors[code];
    byStatus.set(http, [...(byStatus.get(http) ?? []), code]);
  }
  return [...byStatus].map(([status, codes]) => [String(status), refusedAs(status, codes)]);
}

function refusedAs(status: number, codes: readonly ErrorCode[]): OpenApiResponse {
  const isRetried = status === 429 || status === 503;
  const code = {
    description: "The code of the refusal, for programs.",
    schema: { type: "string", enum: codes },
  };
  return {
    description: codes.map((each) => `\`${each}\`: ${errors[each].text}.`).join(" "),
    headers: {
      ...everyHeader,
      "codeq-error": code,
      ...(isRetried ? describedHeaders({ "retry-after": "Seconds to wait." }) : {}),
    },
    content: { [jsonType]: { schema: ref("Error") } },
  };
}

/** Every code that a route may answer with, in the order of the table of errors. */
export function refusalsOf(each: AnyRoute): readonly ErrorCode[] {
  const { access, scope } = each.operation;
  const found = new Set<ErrorCode>([
    ...ofEveryRoute,
    ...(access === "worker" ? ofWorkers : []),
    ...(scope === undefined ? [] : (["missing_scope"] as const)),
    ...(access === "admin" || access === "viewer" ? (["admin_only"] as const) : []),
    ...(access === "admin" ? (["read_only"] as const) : []),
    ...(each.operation.showsPayloads === true ? (["payloads_hidden"] as const) : []),
    ...(isForAdmins(access) ? (["operator_only"] as const) : []),
    ...(each.body === undefined ? [] : (["invalid_body", "body_too_large"] as const)),
    ...(each.method === "GET" ? [] : (["disk_full"] as const)),
    ...(each.refusals ?? []),
  ]);
  return (Object.keys(errors) as ErrorCode[]).filter((code) => found.has(code));
}

const ofWorkers: readonly ErrorCode[] = ["missing_event_types", "missing_worker_scope"];

/** Who calls is looked at first, then how often, then the query; then the storage may fail. */
export const ofEveryRoute: readonly ErrorCode[] = [
  "missing_authorization",
  "invalid_authorization",
  "invalid_token",
  "mistyped_key",
  "token_expired",
  "token_not_active",
  "token_revoked",
  "invalid_issuer",
  "invalid_audience",
  "invalid_claims",
  "invalid_tenant",
  "keys_unavailable",
  "compressed_body",
  "rate_limited",
  "quota_exceeded",
  "invalid_argument",
  "storage_failed",
  "no_leader",
  "outcome_unknown",
  "shutting_down",
  "overloaded",
  "data_damaged",
  "internal",
];

function pagePath(
  name: string,
  summary: string,
  replies: Readonly<Record<number, { about: string; type: string; schema: JsonSchema }>>,
): { get: OpenApiOperation } {
  const responses = Object.entries(replies).map(([status, { about, type, schema }]) => [
    status,
    { description: about, headers: everyHeader, content: { [type]: { schema } } },
  ]);
  return {
    get: {
      operationId: name,
      tags: ["pages"],
      summary,
      security: [],
      responses: Object.fromEntries(responses),
    },
  };
}

const health = { type: jsonType, schema: ref("Health") };

const pagePaths: OpenApi["paths"] = {
  "/healthz": pagePath("getHealth", "Whether the server works or needs a restart", {
    200: { about: "It works.", ...health },
    503: { about: "The storage has failed.", ...health },
  }),
  "/readyz": pagePath("getReadiness", "Whether the server accepts writes", {
    200: { about: "It does.", ...health },
    503: { about: "It does not now.", ...health },
  }),
  "/metrics": pagePath("getMetrics", "Measurements for Prometheus", {
    200: {
      about: "The text format 0.0.4.",
      type: "text/plain",
      schema: { type: "string" },
    },
  }),
  "/openapi.json": pagePath("getOpenApi", "This document", {
    200: { about: "OpenAPI 3.1.", type: jsonType, schema: { type: "object" } },
  }),
};
