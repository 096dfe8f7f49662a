/** The document of the API and the page to try it: public, self-contained, and safe to open. */
import assert from "node:assert/strict";
import test from "node:test";
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
