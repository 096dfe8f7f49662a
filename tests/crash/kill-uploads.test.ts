/** kill -9 while files are on their way: nothing is half visible, and nothing stays behind. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";

interface Asked {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  readonly json: any;
}

async function ask(url: string, method: string, path: string, body?: string): Promise<Asked> {
  const response = await fetch(`${url}/v1/codeq${path}`, {
    method,
    headers: { authorization: "Bearer dev-token" },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  return { status: response.status, json: text === "" ? undefined : JSON.parse(text) };
}

test("what was stored is kept, what was on its way is gone, and the task goes on", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = join(directory.path, "data");
  const files = (): string[] => {
    const found = readdirSync(join(dataDir, "artifacts", "results"), { recursive: true });
    return found.map(String).filter((path) => path.split("/").length === 3);
  };
  const first = await startServer({ dataDir });
  const { id } = (await ask(first.url, "POST", "/tasks", '{"command":"render","payload":1}')).json;
  await ask(first.url, "POST", "/tasks/claim", "{}");
  assert.equal((await ask(first.url, "PUT", `/tasks/${id}/artifacts/whole`, "kept")).status, 201);
  const cut = request(`${first.url}/v1/codeq/tasks/${id}/artifacts/half`, {
    method: "PUT",
    headers: { authorization: "Bearer dev-token", "content-length": "1000000" },
  });
  cut.on("error", () => {});
  cut.write(Buffer.alloc(200_000));
  while (files().length < 2) await new Promise((resolve) => setImmediate(resolve));
  await first.kill();
  const second = await startServer({ dataDir });
  t.after(() => second.kill());
  const submitted = await ask(
    second.url,
    "POST",
    `/tasks/${id}/result`,
    '{"status":"COMPLETED","result":{}}',
  );
  assert.equal(submitted.status, 200);
  assert.deepEqual(
    submitted.json.artifacts.map(({ name }: { name: string }) => name),
    ["whole"],
  );
  while (files().length > 1) await new Promise((resolve) => setImmediate(resolve));
  assert.match(files()[0] ?? "", /whole$/);
  assert.equal((await ask(second.url, "GET", `/tasks/${id}/artifacts/half`)).status, 404);
});
