/** Submitting and reading results: contract 1.4 to 1.6, 2.11, 2.12, 2.14 and decisions S10 to S12, S17. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { onlyWith, type Reply, type RunningServer, setup, until } from "./setup.ts";

function refuses(reply: Reply, status: number, text: string | RegExp): void {
  if (typeof text === "string") assert.deepEqual(reply.json, { error: text });
  else assert.match(reply.json.error, text);
  assert.equal(reply.status, status);
}

async function setupWithArtifacts(t: TestContext): Promise<[RunningServer, string]> {
  const directory = await mkdtemp(join(tmpdir(), "codeq-artifacts-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const settings = { localArtifactsDir: directory, retentionSeconds: 60 };
  return [await setup(t, { settings }), directory];
}

/** The content of an artifact, as anybody gets it. */
async function content(server: RunningServer, url: string): Promise<string> {
  assert.match(url, /^http:\/\/localhost:80\/v1\/codeq\/tasks\//);
  const reply = await server.ask(url, { caller: "producer-acme" });
  assert.equal(reply.status, 200, reply.text);
  return reply.text;
}

test("a result is answered with its record and ends the task", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const body =
    '{"status":"COMPLETED","result":{ "n": 12345678901234567890 },"workerId":"worker-1"}';
  const reply = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  const record =
    `{"taskId":"${id}","status":"COMPLETED","result":{ "n": 12345678901234567890 },` +
    `"completedAt":"2026-01-02T03:04:05.12Z"}`;
  assert.equal(reply.text, record);
  assert.equal(reply.status, 200);
  const read = await server.get(`/tasks/${id}/result`);
  const task = (await server.get(`/tasks/${id}`)).text;
  assert.equal(read.text, `{"result":${record},"task":${task}}`);
  const { status, lastKnownLocation, resultKey, workerId } = JSON.parse(task);
  assert.deepEqual(
    [status, lastKnownLocation, resultKey, workerId],
    ["COMPLETED", "NONE", `codeq/results/${id}`, undefined],
  );
});

test("a result in the name of another worker is refused, unless input is lenient", async (t) => {
  const body = { status: "COMPLETED", result: {}, workerId: "liar" };
  const strict = await setup(t);
  const id = await strict.leased();
  const refused = await strict.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.deepEqual([refused.status, refused.json.error], [403, "not-owner"]);
  const results = [{ ...body, taskId: id }];
  const batch = await strict.post("/tasks/batch/results", { results }, "worker-acme");
  assert.equal(batch.json.results[0].code, "not_owner");
  assert.equal((await strict.task(id)).status, "IN_PROGRESS");
  const unknown = await strict.post(`/tasks/${id.replace(/./g, "0")}/result`, body, "worker-acme");
  assert.equal(unknown.status, 404);
  const lenient = await setup(t, { settings: { lenientInput: true } });
  const own = await lenient.leased();
  const taken = await lenient.post(`/tasks/${own}/result`, body, "worker-acme");
  assert.equal(taken.status, 200);
});

test("an empty result object is accepted and not echoed", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const reply = await server.post(
    `/tasks/${id}/result`,
    '{"status":"COMPLETED","result":{ }}',
    "worker-acme",
  );
  assert.deepEqual(Object.keys(reply.json), ["taskId", "status", "completedAt"]);
});

test("a failure needs an error and keeps it", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const body = { status: "FAILED", error: "out of paper", result: { page: 3 } };
  const reply = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.deepEqual(Object.keys(reply.json), ["taskId", "status", "result", "error", "completedAt"]);
  assert.equal((await server.task(id)).error, "out of paper");
  assert.equal((await server.task(id)).lastKnownLocation, "NONE");
});

test("a submission that says nothing useful is refused with its own text", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const cases: [unknown, string | RegExp][] = [
    ["", /^invalid request body: it is empty/],
    ["{}", "invalid request body: status is required"],
    [{ status: "COMPLETED", result: [] }, "invalid request body: result must be an object, got []"],
    [
      { status: "COMPLETED", result: "done" },
      'invalid request body: result must be an object, got "done"',
    ],
    [
      { status: "COMPLETED", result: {}, artifacts: {} },
      "invalid request body: artifacts must be an array, got {}",
    ],
    [{ status: 7, result: {} }, "invalid request body: status must be a string, got 7"],
    [{ status: "COMPLETED" }, "result required when status=COMPLETED"],
    [{ status: "COMPLETED", result: null }, "result required when status=COMPLETED"],
    [{ status: "FAILED" }, "error required when status=FAILED"],
    [{ status: "FAILED", error: " \t" }, "error required when status=FAILED"],
    [{ status: "DONE", result: {} }, "invalid status"],
    [{ status: "completed", result: {} }, "invalid status"],
    [{ status: "FAILED", error: "x".repeat(65_537) }, "invalid 'error' (at most 65536 characters)"],
    [
      { status: "COMPLETED", result: {}, artifacts: Array(101).fill({ name: "a", url: "b" }) },
      "invalid 'artifacts' (at most 100)",
    ],
  ];
  const before = await server.fingerprint();
  for (const [body, text] of cases) {
    refuses(await server.post(`/tasks/${id}/result`, body, "worker-acme"), 400, text);
  }
  assert.equal(await server.fingerprint(), before);
  assert.equal((await server.complete(id)).status, 200);
});

test("only the owner of a running task may submit", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const waiting = await server.create();
  const good = { status: "COMPLETED", result: {} };
  const submit = (task: string, body: object, caller: "worker-acme" | "worker-acme-2") =>
    server.post(`/tasks/${task}/result`, { ...good, ...body }, caller);
  refuses(await submit("unknown", {}, "worker-acme"), 404, "task not found");
  refuses(await submit(id, {}, "worker-acme-2"), 403, "not-owner");
  refuses(await submit(id, { leaseToken: 2 }, "worker-acme"), 403, "not-owner");
  refuses(await submit(waiting, {}, "worker-acme"), 409, "not-in-progress");
  assert.equal((await submit(id, { leaseToken: 1 }, "worker-acme")).status, 200);
});

test("a stale lease token is not the owner even for the same worker", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  await server.post(`/tasks/${id}/abandon`, {}, "worker-acme");
  assert.equal((await server.claim()).leaseToken, 2);
  const stale = { status: "COMPLETED", result: {}, leaseToken: 1 };
  refuses(await server.post(`/tasks/${id}/result`, stale, "worker-acme"), 403, "not-owner");
  for (const verb of ["heartbeat", "nack", "abandon"]) {
    const reply = await server.post(`/tasks/${id}/${verb}`, { leaseToken: 1 }, "worker-acme");
    refuses(reply, 403, "not-owner");
  }
  const fresh = { ...stale, leaseToken: 2 };
  assert.equal((await server.post(`/tasks/${id}/result`, fresh, "worker-acme")).status, 200);
});

test("an expired lease that nobody took back still accepts its owner and nobody else", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  await server.claim({ leaseSeconds: 1 });
  server.clock.stepWall(5000);
  const good = { status: "COMPLETED", result: {} };
  refuses(await server.post(`/tasks/${id}/result`, good, "worker-acme-2"), 403, "not-owner");
  assert.equal((await server.post(`/tasks/${id}/result`, good, "worker-acme")).status, 200);
});

test("a batch answers each result in order", async (t) => {
  const server = await setup(t);
  const ids = [await server.leased(), await server.leased()];
  const foreign = await server.leased({}, "worker-acme-2");
  const results = [
    { taskId: ids[0], status: "COMPLETED", result: { result: { result: 1 } } },
    { taskId: "unknown", status: "COMPLETED", result: {} },
    { taskId: foreign, status: "COMPLETED", result: {} },
    { taskId: ids[1], status: "FAILED" },
    { taskId: ids[1], status: "DONE" },
    { taskId: ids[1], status: "COMPLETED" },
    { status: "COMPLETED", result: {} },
    { taskId: ids[1], status: "FAILED", error: "no" },
    { taskId: ids[1], status: "COMPLETED", result: {} },
  ];
  const reply = await server.post("/tasks/batch/results", { results }, "worker-acme");
  assert.equal(reply.status, 200);
  const [first, ...rest] = reply.json.results;
  assert.deepEqual(Object.keys(first), ["taskId", "result"]);
  assert.deepEqual(first.result.result, { result: { result: 1 } });
  const errors = rest.map(({ taskId, error }: { taskId: string; error: string }) => [
    taskId,
    error,
  ]);
  assert.deepEqual(errors, [
    ["unknown", "task not found"],
    [foreign, "not-owner"],
    [ids[1], "error required when status=FAILED"],
    [ids[1], "invalid status"],
    [ids[1], "result required when status=COMPLETED"],
    ["", "task not found"],
    [ids[1], undefined],
    [ids[1], "not-in-progress"],
  ]);
  assert.equal(rest[6].result.status, "FAILED");
});

test("a batch of results has the limits of other batches", async (t) => {
  const server = await setup(t, { settings: { resultBatchMax: 3 } });
  const submit = (body: unknown) => server.post("/tasks/batch/results", body, "worker-acme");
  for (const body of [
    "",
    "{}",
    '{"results":[]}',
    '{"results":[1]}',
    '{"results":[{"taskId":7}]}',
  ]) {
    refuses(await submit(body), 400, /^invalid body: (it|results)/);
  }
  const item = { taskId: "x", status: "COMPLETED", result: {} };
  const text = "batch size exceeds maximum of 3";
  refuses(await submit({ results: Array(4).fill(item) }), 400, text);
  assert.equal((await submit({ results: Array(3).fill(item) })).json.results.length, 3);
});

test("a batch of results stores artifacts and counts completions as single ones do", async (t) => {
  const [server] = await setupWithArtifacts(t);
  const id = await server.leased();
  const artifacts = [{ name: "a.txt", contentBase64: "aGk=" }];
  const results = [{ taskId: id, status: "COMPLETED", result: {}, artifacts }];
  const { json } = await server.post("/tasks/batch/results", { results }, "worker-acme");
  const [artifact] = json.results[0].result.artifacts;
  assert.equal(await content(server, artifact.url), "hi");
  const series = 'codeq_task_completed_total{command="render",status="COMPLETED"}';
  assert.equal(await server.metric(series), 1);
});

test("a result that is not there yet is 404, and so is an unknown task", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  refuses(await server.get(`/tasks/${id}/result`), 404, "result not found");
  refuses(await server.get("/tasks/unknown/result"), 404, "task not found");
  refuses(await server.get("/tasks/unknown/result?waitSeconds=60"), 404, "task not found");
  for (const wait of ["0", "-5", "-1e9"]) {
    refuses(await server.get(`/tasks/${id}/result?waitSeconds=${wait}`), 404, "result not found");
  }
  for (const wait of ["abc", "", "NaN", "Infinity", "0x10"]) {
    const text = `waitSeconds must be a number, got "${wait}"`;
    refuses(await server.get(`/tasks/${id}/result?waitSeconds=${wait}`), 400, text);
  }
  for (const [query, text] of [
    ["waitSeconds=1&waitSeconds=2", "query parameter waitSeconds is given more than once"],
    ["waitSecond=1", 'unknown query parameter "waitSecond"; did you mean "waitSeconds"?'],
    ["tenant=x", 'unknown query parameter "tenant"; known: waitSeconds'],
  ] as const) {
    refuses(await server.get(`/tasks/${id}/result?${query}`), 400, text);
  }
  const known = 'unknown query parameter "x"; known: consistency';
  refuses(await server.get(`/tasks/${id}?x=1`), 400, known);
});

test(
  "a reader who waits gets the result when it is there, or 404 after at most 60 seconds",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t);
    const id = await server.leased({}, "worker-acme");
    const early = server.get(`/tasks/${id}/result?waitSeconds=2`);
    const late = server.get(`/tasks/${id}/result?waitSeconds=1e308`, "worker-acme-2");
    await server.untilWaiting(2, "results");
    await server.clock.advance(2000);
    refuses(await early, 404, "result not found");
    await server.clock.advance(57_999);
    assert.equal(server.core.shard.results.size, 1);
    await server.complete(id);
    assert.equal((await late).json.result.status, "COMPLETED");
    const other = await server.create();
    const never = server.get(`/tasks/${other}/result?waitSeconds=61`);
    await server.untilWaiting(1, "results");
    await server.clock.advance(60_000);
    refuses(await never, 404, "result not found");
  },
);

test("artifacts go with their task, at the end of its retention or by hand", async (t) => {
  const [server, directory] = await setupWithArtifacts(t);
  const filed = async (): Promise<string> => {
    const id = await server.leased();
    const artifacts = [{ name: "a.txt", contentBase64: "aGk=" }];
    const body = { status: "COMPLETED", result: {}, artifacts };
    assert.equal((await server.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
    return id;
  };
  const files = (): Promise<string[]> => readdir(join(directory, "results"));
  const kept = await filed();
  assert.deepEqual(await files(), [kept]);
  await server.clock.advance(61_000);
  await until(async () => (await server.get(`/tasks/${kept}`)).status === 404);
  // After the task: no result may name a file that is gone.
  await until(async () => (await files()).length === 0);
  await filed();
  const before = new Date(server.clock.nowMs() + 60_001).toISOString();
  const { json } = await server.post("/admin/tasks/cleanup", { before }, "admin-acme");
  assert.equal(json.deleted, 1);
  assert.deepEqual(await files(), []);
});

test("of two submits at once, the artifact is that of the result", async (t) => {
  const [server, directory] = await setupWithArtifacts(t);
  for (let round = 0; round < 10; round += 1) {
    const id = await server.leased();
    const submit = (word: string) => {
      const artifacts = [{ name: "a.txt", contentBase64: Buffer.from(word).toString("base64") }];
      const body = { status: "COMPLETED", result: { word }, artifacts };
      return server.post(`/tasks/${id}/result`, body, "worker-acme");
    };
    const replies = await Promise.all(["one", "two", "three"].map(submit));
    for (const { status, text } of replies) assert.equal(status, 200, text);
    const { result } = (await server.get(`/tasks/${id}/result`)).json.result;
    const url: string = (await server.get(`/tasks/${id}/result`)).json.result.artifacts[0].url;
    assert.equal(await content(server, url), result.word);
    assert.equal((await readdir(join(directory, "results", id))).length, 1, "the others are gone");
  }
});

test("files of submits that a crash cut short are removed after the next start", async (t) => {
  const [server, directory] = await setupWithArtifacts(t);
  const artifacts = [{ name: "a.txt", contentBase64: "aGk=" }];
  const body = { status: "COMPLETED", result: {}, artifacts };
  const [done, running] = [await server.leased(), await server.leased()];
  const { json } = await server.post(`/tasks/${done}/result`, body, "worker-acme");
  const gone = "019b7ca9-8d00-7000-a569-9bac4a915603";
  for (const id of [done, running, gone]) {
    await mkdir(join(directory, "results", id, "00000000000000ff"), { recursive: true });
    await writeFile(join(directory, "results", id, "00000000000000ff", "a.txt"), "half");
  }
  const after = await server.restart();
  t.after(() => after.stop());
  await after.clock.advance(1);
  await until(() => after.lines.some((line) => line.includes("artifacts without a result")));
  assert.deepEqual(await readdir(join(directory, "results")), [done]);
  assert.equal(await content(after, json.artifacts[0].url), "hi");
  assert.equal((await readdir(join(directory, "results", done))).length, 1);
});

test("a repeated submit says that it is one, and whether it differs from what is stored", async (t) => {
  const [server] = await setupWithArtifacts(t);
  const id = await server.leased();
  const link = { name: "report", url: "https://files.example/1" };
  const file = { name: "a.txt", contentBase64: "aGk=" };
  const first = { status: "COMPLETED", result: { a: 1 }, artifacts: [link, file] };
  const submit = (body: object) => server.post(`/tasks/${id}/result`, body, "worker-acme");
  const stored = await submit(first);
  assert.equal(stored.headers["codeq-body-differed"], undefined);
  assert.equal(stored.json.repeated, undefined);
  const same = await submit(first);
  assert.equal(same.status, 200);
  assert.equal(same.headers["codeq-body-differed"], undefined);
  assert.deepEqual(same.json, { ...stored.json, repeated: true });
  for (const change of [
    { result: { a: 2 } },
    { error: "late" },
    { artifacts: [] },
    { artifacts: [{ ...link, url: "https://files.example/2" }, file] },
    { artifacts: [link, { ...file, name: "b.txt" }] },
  ]) {
    const other = await submit({ ...first, ...change });
    assert.equal(other.status, 200, JSON.stringify(change));
    assert.equal(other.headers["codeq-body-differed"], "true", JSON.stringify(change));
    assert.deepEqual(other.json, { ...stored.json, repeated: true, bodyDiffered: true });
  }
  const results = [{ taskId: id, ...first, result: { a: 3 } }];
  const batch = await server.post("/tasks/batch/results", { results }, "worker-acme");
  const { result } = batch.json.results[0];
  assert.deepEqual(result, { ...stored.json, repeated: true, bodyDiffered: true });
  assert.deepEqual((await server.get(`/tasks/${id}/result`)).json.result, stored.json);
});

test("two artifacts of one name are refused", async (t) => {
  const [server] = await setupWithArtifacts(t);
  const id = await server.leased();
  const artifacts = ["aGk=", "aG8="].map((contentBase64) => ({ name: "a.txt", contentBase64 }));
  const body = { status: "COMPLETED", result: {}, artifacts };
  const reply = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  refuses(reply, 400, "artifact a.txt upload: the name is there twice");
});

test("artifacts with a URL pass through, files are stored, entries with neither are dropped", async (t) => {
  const [server, directory] = await setupWithArtifacts(t);
  const id = await server.leased();
  const artifacts = [
    { name: "file.bin", contentBase64: "/+8", contentType: "ignored" },
    { name: "../anything", url: "s3://bucket/key" },
    { name: "empty" },
    { name: "both", url: "u", contentBase64: "!!!" },
    { name: "täxt ☃.txt", contentBase64: "aGk=" },
  ];
  const body = { status: "COMPLETED", result: {}, artifacts };
  const reply = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.equal(reply.status, 200, reply.text);
  const stored: { name: string; url: string }[] = reply.json.artifacts;
  assert.deepEqual(stored.slice(1, 3), [
    { name: "../anything", url: "s3://bucket/key" },
    { name: "both", url: "u" },
  ]);
  assert.deepEqual(
    [stored.length, stored[0]?.name, stored[3]?.name],
    [4, "file.bin", "täxt ☃.txt"],
  );
  const { url = "" } = stored.find(({ name }) => name === "file.bin") ?? {};
  const upload = new URL(url, "http://any").searchParams.get("upload") ?? "";
  const path = join(directory, "results", id, upload, "file.bin");
  assert.deepEqual(await readFile(path), Buffer.from([0xff, 0xef]));
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.equal((await stat(join(directory, "results", id))).mode & 0o777, 0o700);
  assert.deepEqual((await server.get(`/tasks/${id}/result`)).json.result.artifacts, stored);
});

test("an artifact that cannot be stored fails the submit and leaves the task running", async (t) => {
  const [server, directory] = await setupWithArtifacts(t);
  const id = await server.leased();
  const names = [
    "CON",
    "nul.txt",
    "com1",
    "a.",
    "a ",
    "\u007f",
    "../x",
    "a/b",
    "a\\b",
    "..",
    ".",
    "",
    "a\u0000b",
    "a\nb",
    "/etc/passwd",
  ];
  const before = await server.fingerprint();
  const submit = (artifact: object) =>
    server.post(
      `/tasks/${id}/result`,
      { status: "COMPLETED", result: {}, artifacts: [artifact] },
      "worker-acme",
    );
  for (const name of [...names, "x".repeat(256), "ü".repeat(200)]) {
    const reply = await submit({ name, contentBase64: "aGk=" });
    assert.equal(reply.status, 400, `${name}: ${reply.text}`);
    assert.ok(reply.json.error.startsWith(`artifact ${name.slice(0, 255)} upload:`), reply.text);
  }
  for (const contentBase64 of ["a-_b", "not base64!", "===="]) {
    const reply = await submit({ name: "a", contentBase64 });
    assert.equal(reply.status, 400);
    assert.ok(reply.json.error.startsWith("artifact a base64 decode:"), reply.text);
  }
  assert.equal(await server.fingerprint(), before);
  await assert.rejects(stat(join(directory, "results")), { code: "ENOENT" });
  assert.equal((await submit({ name: "a", contentBase64: "aGk=" })).status, 200);
});
