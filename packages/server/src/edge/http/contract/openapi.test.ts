/** What the document says of routes beside what answers are held against in the contract tests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limits } from "@codeq/protocol";
import { reportLimits } from "@codeq/queue";
import { routes } from "../../../start/features.ts";
import { openApiOf, refusalsOf, replySchemas, templateOf } from "./openapi.ts";

const api = openApiOf(routes, { version: "1.2.3", isLenient: false });

test("every route is in the document, under a name of its own", () => {
  const names = routes.map(({ method, path }) => {
    const operation = api.paths[templateOf(path)]?.[method.toLowerCase()];
    assert.ok(operation !== undefined, `${method} ${path}`);
    return operation.operationId;
  });
  assert.equal(new Set(names).size, routes.length);
});

test("every part of a path is described, and nothing that is not there", () => {
  for (const { path, params = {} } of routes) {
    const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => name);
    assert.deepEqual(Object.keys(params), names, path);
  }
});

test("references lead somewhere, and every schema is used", () => {
  const text = JSON.stringify(api);
  const used = [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(
    ([, name]) => name,
  );
  assert.deepEqual([...new Set(used)].sort(), Object.keys(replySchemas).sort());
});

test("who may not call is told so: scopes, admins and operators have their codes", () => {
  for (const each of routes) {
    const codes = refusalsOf(each);
    const { access, scope } = each.operation;
    assert.equal(codes.includes("missing_scope"), scope !== undefined, each.path);
    const isForAdmins = access === "admin" || access === "viewer";
    assert.equal(codes.includes("admin_only"), isForAdmins, each.path);
    assert.equal(codes.includes("read_only"), access === "admin", each.path);
    assert.equal(codes.includes("missing_event_types"), access === "worker", each.path);
  }
});

test("for lenient callers no body forbids further fields", () => {
  const lenient = openApiOf(routes, { version: "1.2.3", isLenient: true });
  const bodies = (document: typeof api): string =>
    JSON.stringify(
      Object.values(document.paths).map((path) =>
        Object.values(path).map((each) => each["requestBody"]),
      ),
    );
  assert.ok(bodies(api).includes('"additionalProperties":false'));
  assert.ok(!bodies(lenient).includes("additionalProperties"));
});

test("the limits of reports are those that the queue keeps", () => {
  assert.equal(limits.progressCharsMax, reportLimits.textCharsMax);
  assert.equal(limits.logLinesMax, reportLimits.linesMax);
});
