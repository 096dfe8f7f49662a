/** The document of the API and the page to try it: public, self-contained, and safe to open. */
import assert from "node:assert/strict";
import test from "node:test";
import { limits } from "@codeq/protocol";
import { setup } from "./setup.ts";

test("the document of the API is there for anybody, and says what the settings say", async (t) => {
  const server = await setup(t);
  const reply = await server.ask("/openapi.json", {});
  assert.equal(reply.status, 200);
  assert.equal(reply.json.openapi, "3.1.0");
  assert.ok(reply.text.includes('"additionalProperties":false'));
  const lenient = await setup(t, { settings: { lenientInput: true } });
  const { paths } = (await lenient.ask("/openapi.json", {})).json;
  const { requestBody } = paths["/v1/codeq/tasks"].post;
  assert.ok(!JSON.stringify(requestBody).includes("additionalProperties"));
});

test("the document has patterns, choices and links that lead from lists to their items", async (t) => {
  const server = await setup(t);
  const { paths, components } = (await server.ask("/openapi.json", {})).json;
  const operation = (key: string) => {
    const [method = "", path = ""] = key.split(" ");
    return paths[`/v1/codeq${path}`][method.toLowerCase()];
  };
  const bodyOf = (key: string) =>
    operation(key).requestBody.content["application/json"].schema.properties;
  assert.equal(bodyOf("POST /tasks").command.pattern, limits.commandPattern.source);
  assert.equal(bodyOf("POST /tasks/{id}/result").status.pattern, "^(COMPLETED|FAILED)$");
  assert.deepEqual(bodyOf("POST /admin/keys").name.pattern, "\\S");
  const topic = operation("PUT /admin/topics/{topicName}").parameters[0];
  assert.equal(topic.schema.type, "string");
  const parameter = (key: string, name: string) =>
    operation(key).parameters.find((each: { name: string }) => each.name === name).schema;
  for (const verb of ["POST /admin/queues/{command}/pause", "GET /admin/queues/{command}/series"]) {
    assert.equal(parameter(verb, "command").pattern, limits.commandPattern.source, verb);
  }
  assert.equal(parameter("GET /admin/audit", "from").format, "date-time");
  const linked = (key: string, status: number, to: string): unknown =>
    operation(key).responses[status].links?.[to]?.parameters;
  assert.deepEqual(linked("GET /admin/tasks", 200, "inspectTask"), {
    id: "$response.body#/tasks/0/id",
  });
  assert.deepEqual(linked("POST /admin/keys", 201, "getApiKey"), { id: "$response.body#/id" });
  const names = new Set(
    Object.values(paths as Record<string, Record<string, { operationId: string }>>).flatMap(
      (methods) => Object.values(methods).map(({ operationId }) => operationId),
    ),
  );
  const links = [...JSON.stringify(paths).matchAll(/"links":\{"(\w+)"/g)].map(([, name]) => name);
  assert.ok(links.length >= 8, links.join());
  for (const name of links) assert.ok(names.has(name ?? ""), name);
  for (const [, pattern] of JSON.stringify([paths, components]).matchAll(/"pattern":("[^"]*")/g)) {
    assert.doesNotThrow(() => new RegExp(JSON.parse(pattern ?? "")));
  }
});

test("the page to try the API runs only its own files", async (t) => {
  const server = await setup(t);
  const page = await server.ask("/docs", {});
  assert.equal(page.status, 200);
  assert.equal(page.headers["content-type"], "text/html; charset=utf-8");
  const policy = page.headers["content-security-policy"] ?? "";
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  assert.equal(page.headers["x-content-type-options"], "nosniff");
  assert.doesNotMatch(page.text, /<script(?![^>]* src=)|<style|\son\w+=|style=|https?:\/\//);
  const linked = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
  assert.deepEqual(linked, ["/docs/page.css", "/docs/page.js", "/openapi.json"]);
  for (const path of linked) {
    const file = await server.ask(path, {});
    assert.equal(file.status, 200, path);
    assert.equal(file.headers["x-content-type-options"], "nosniff");
    if (path.endsWith(".js")) {
      assert.equal(file.headers["content-type"], "text/javascript; charset=utf-8");
      assert.doesNotMatch(file.text, /innerHTML|eval\(|https?:\/\//);
    }
  }
});
