/** Files of results from the command line. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("files of a result are listed and fetched", async (t) => {
  const { server, world } = await setup(t);
  const cli = world();
  const { id } = JSON.parse((await cli.run("enqueue", "report", "--json")).output);
  const ask = (path: string, method: string, body: string): Promise<Response> => {
    const headers = { authorization: "Bearer dev-token", "content-type": "text/csv" };
    return fetch(`${server.url}/v1/codeq${path}`, { method, headers, body });
  };
  await ask("/tasks/claim", "POST", "{}");
  assert.equal((await ask(`/tasks/${id}/artifacts/a.csv`, "PUT", "a,b\n")).status, 201);
  await ask(`/tasks/${id}/result`, "POST", '{"status":"COMPLETED","result":{}}');
  const listed = await cli.run("artifacts", "list", id.slice(-8));
  assert.match(
    listed.output,
    /^NAME +SIZE +TYPE +URL\na\.csv +4 B +text\/csv +http:\/\/127\.0\.0\.1:\d+\/v1\/codeq/,
  );
  const got = await cli.run("artifacts", "get", id, "a.csv");
  assert.equal(got.code, 0, got.errors);
  assert.equal(readFileSync(join(cli.directory, "a.csv"), "utf8"), "a,b\n");
  assert.notEqual((await cli.run("artifacts", "get", id, "a.csv")).code, 0);
  const unknown = await cli.run("artifacts", "get", id, "b.csv");
  assert.deepEqual([unknown.code, /no such artifact/.test(unknown.errors)], [8, true]);
});
