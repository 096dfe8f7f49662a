/**
 * Holds every answer of the contract tests against the document of the API: its status, its code, its
 * type and its body, in which no field may be that the document does not name.
 */
import assert from "node:assert/strict";
import type { ErrorCode } from "@codeq/protocol";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { JsonSchema } from "../../packages/server/src/edge/http/contract/contract-schema.ts";
import { openApiOf, templateOf } from "../../packages/server/src/edge/http/contract/openapi.ts";
import { routes } from "../../packages/server/src/start/features.ts";

interface Answered {
  readonly method: string;
  /** With its query. */
  readonly url: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
}

const api = openApiOf(routes, { version: "0.0.0", isLenient: false });

const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
ajv.addKeyword("components");
ajv.addFormat("date-time", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/);
ajv.addFormat("uuid", /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
ajv.addSchema({ $id: "api", components: closed(api.components) as object });

/** No object has fields that its schema does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== "object" || schema === null) return schema;
  const inside = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, closed(value)]),
  );
  const { properties, additionalProperties } = schema as JsonSchema;
  const isOpen = properties !== undefined && additionalProperties === undefined;
  return isOpen ? { ...inside, additionalProperties: false } : inside;
}

const matchers = routes.map((route) => ({
  route,
  pattern: new RegExp(`^${route.path.replace(/:\w+/g, "[^/]+")}/?$`),
}));

const validators = new Map<string, ValidateFunction>();

function validatorOf({ $ref }: JsonSchema): ValidateFunction {
  const name = String($ref);
  const known = validators.get(name) ?? ajv.compile({ $ref: `api${name}` });
  validators.set(name, known);
  return known;
}

/** Answers of pages, and to paths and methods that lead nowhere, are not looked at. */
export function assertDocumented({ method, url, status, headers, text }: Answered): void {
  // Requests go out with `.` and `..` resolved.
  const path = new URL(url, "http://localhost").pathname;
  const found = matchers.find(
    ({ route, pattern }) => route.method === method && pattern.test(path),
  );
  const type = headers["content-type"]?.split(";")[0];
  if (found === undefined || type === "text/plain") return;
  const what = `${method} ${url} (${found.route.path}) ${status} ${text.slice(0, 300)}`;
  const operation = api.paths[templateOf(found.route.path)]?.[method.toLowerCase()];
  const response = operation?.responses[String(status)];
  assert.ok(response !== undefined, `the status is not documented: ${what}`);
  const code = headers["codeq-error"];
  const codes = response.headers?.["codeq-error"]?.schema["enum"] as ErrorCode[] | undefined;
  assert.ok(code === undefined || codes?.includes(code as ErrorCode), `not documented: ${what}`);
  const content = type === undefined ? undefined : response.content?.[type];
  assert.equal(type === undefined, response.content === undefined, what);
  if (type !== "application/json") return;
  assert.ok(content !== undefined, `the type ${type} is not documented: ${what}`);
  const validate = validatorOf(content.schema);
  assert.ok(validate(JSON.parse(text)), `${ajv.errorsText(validate.errors)}: ${what}`);
}
