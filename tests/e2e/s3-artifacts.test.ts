/** Artifacts in a real S3 server, which is slow, failing or cut off when a test says so. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { SimClock } from "@codeq/simulated";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import type { ArtifactKey } from "../../packages/server/src/features/artifacts/artifact-provider.ts";
import {
  partBytes,
  S3Artifacts,
  type S3Settings,
} from "../../packages/server/src/features/artifacts/s3-artifacts.ts";
import { type Options, type RunningServer, setup as setupServer } from "../contract/setup.ts";
import { S3Server, s3Binary } from "./s3-server.ts";

const binary = s3Binary();
const options = { skip: "missing" in binary && binary.missing };

async function setup(t: TestContext): Promise<{ s3: S3Server; artifacts: S3Artifacts }> {
  const s3 = await S3Server.start("path" in binary ? binary.path : "");
  t.after(() => s3[Symbol.asyncDispose]());
  return { s3, artifacts: new S3Artifacts(settingsOf(s3), systemClock) };
}

function settingsOf(s3: S3Server): S3Settings {
  return {
    s3Endpoint: s3.endpoint,
    s3Region: "us-east-1",
    s3Bucket: s3.bucket,
    s3Prefix: "queue/",
    s3PathStyle: true,
    s3AccessKeyId: s3.accessKeyId,
    s3SecretAccessKey: s3.secretAccessKey,
    s3SessionToken: "",
    s3Redirect: true,
  };
}

const key = (name: string, upload = "0123456789abcdef"): ArtifactKey => ({
  id: "019b7ca9-8d00-7000-a569-9bac4a915603" as TaskId,
  upload,
  name,
});

async function* pieces(...all: readonly (string | Buffer)[]): AsyncGenerator<Uint8Array> {
  for (const each of all) yield Buffer.from(each);
}

async function read(stream: Readable | undefined): Promise<Buffer | undefined> {
  if (stream === undefined) return undefined;
  const found: Buffer[] = [];
  for await (const piece of stream) found.push(Buffer.from(piece));
  return Buffer.concat(found);
}

async function listed(artifacts: S3Artifacts): Promise<string[]> {
  const names: string[] = [];
  for await (const { key: each } of artifacts.list()) names.push(each.name);
  return names.sort();
}

test("a file is stored, read in parts, linked, listed and removed", options, async (t) => {
  const { artifacts } = await setup(t);
  const name = "täble (1) & more+.csv";
  await artifacts.put(key(name), pieces("hello ", "world"), "text/csv");
  assert.equal(
    String(await read(await artifacts.open(key(name), { from: 0, to: 10 }))),
    "hello world",
  );
  assert.equal(String(await read(await artifacts.open(key(name), { from: 6, to: 8 }))), "wor");
  assert.equal(await artifacts.open(key("other"), { from: 0, to: 1 }), undefined);
  const link = await artifacts.link(key(name), "text/csv");
  const got = await fetch(link ?? "");
  assert.deepEqual([got.status, await got.text()], [200, "hello world"]);
  assert.equal(got.headers.get("content-type"), "text/csv");
  const forged = await fetch((link ?? "").replace(/.$/, (last) => (last === "0" ? "1" : "0")));
  assert.equal(forged.status, 403);
  assert.deepEqual(await listed(artifacts), [name]);
  await artifacts.remove([key(name)]);
  await artifacts.remove([key(name)]);
  assert.deepEqual(await listed(artifacts), []);
});

test("an empty file, and one of several parts, are as they were sent", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  await artifacts.put(key("empty"), pieces(), "text/plain");
  assert.equal((await read(await artifacts.open(key("empty"), { from: 0, to: -1 })))?.length, 0);
  const big = Buffer.alloc(partBytes * 2 + 12_345, "0123456789");
  const parts = [big.subarray(0, 1_000_000), big.subarray(1_000_000)];
  await artifacts.put(key("big", "00000000000000ff"), pieces(...parts), "text/plain");
  const found = await read(
    await artifacts.open(key("big", "00000000000000ff"), { from: 0, to: big.length - 1 }),
  );
  const hash = (bytes: Buffer | undefined): string =>
    createHash("sha256")
      .update(bytes ?? "")
      .digest("hex");
  assert.equal(hash(found), hash(big));
  const sent = s3.requests.filter((each) => each.includes("partNumber"));
  assert.equal(sent.length, 3);
});

test("what fails for a moment is tried again", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  const faults = [
    { kind: "status", status: 500 },
    { kind: "cut", bytes: 1 },
    { kind: "status", status: 503 },
  ] as const;
  let asked = 0;
  s3.fault = () => faults[asked++];
  await artifacts.put(key("a"), pieces("content"), "text/plain");
  assert.equal(asked, 4);
  assert.equal(String(await read(await artifacts.open(key("a"), { from: 0, to: 6 }))), "content");
});

test(
  "what fails for good leaves nothing, also in the middle of several parts",
  options,
  async (t) => {
    const { s3, artifacts } = await setup(t);
    s3.fault = () => ({ kind: "status", status: 403 });
    await assert.rejects(artifacts.put(key("a"), pieces("x"), "text/plain"), /answered 403 Made/);
    s3.fault = ({ url = "" }) =>
      url.includes("partNumber=2") ? { kind: "status", status: 500 } : undefined;
    const big = Buffer.alloc(partBytes + 1);
    await assert.rejects(artifacts.put(key("big"), pieces(big), "text/plain"), /answered 500/);
    assert.ok(s3.requests.some((each) => /^DELETE .*uploadId=/.test(each)));
    s3.fault = () => undefined;
    assert.deepEqual(await listed(artifacts), []);
    assert.equal(await artifacts.open(key("big"), { from: 0, to: 1 }), undefined);
  },
);

test("content that changes on its way is refused by its checksum", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  s3.fault = ({ method }) => (method === "PUT" ? { kind: "damage" } : undefined);
  await assert.rejects(artifacts.put(key("a"), pieces("content"), "text/plain"), /answered 400/);
  assert.deepEqual(await listed(artifacts), []);
});

/** Lets the time pass that a store gets, as soon as it stands still. */
function passTimeOnStall(s3: S3Server, ms: number): { clock: SimClock; givenUp: Promise<void> } {
  const clock = new SimClock();
  const { promise: givenUp, resolve } = Promise.withResolvers<void>();
  s3.onStall = (what) => {
    if (what === "given up") resolve();
    else void clock.advance(ms);
  };
  return { clock, givenUp };
}

test("a store that stops in the middle of an upload fails it in time", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  const { clock, givenUp } = passTimeOnStall(s3, 60_000);
  const timed = new S3Artifacts(settingsOf(s3), clock);
  s3.fault = ({ method }) => (method === "PUT" ? { kind: "stall request", bytes: 1 } : undefined);
  const fault = /gave no answer within 60000 ms/;
  await assert.rejects(timed.put(key("a"), pieces("content"), "text/plain"), fault);
  await givenUp;
  // A silent store is not asked again.
  assert.equal(s3.requests.filter((each) => each.startsWith("PUT")).length, 1);
  s3.fault = ({ url = "" }) =>
    url.includes("partNumber=2") ? { kind: "stall request", bytes: 1 } : undefined;
  const big = Buffer.alloc(partBytes + 1);
  await assert.rejects(timed.put(key("big"), pieces(big), "text/plain"), fault);
  assert.ok(s3.requests.some((each) => /^DELETE .*uploadId=/.test(each)));
  assert.deepEqual(await listed(artifacts), []);
  assert.equal(clock.timers, 0);
});

test("a store that stops in the middle of a download cuts it in time", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  await artifacts.put(key("a"), pieces("content"), "text/plain");
  const { clock, givenUp } = passTimeOnStall(s3, 30_000);
  const timed = new S3Artifacts(settingsOf(s3), clock);
  s3.fault = () => ({ kind: "stall answer", bytes: 3 });
  const stream = await timed.open(key("a"), { from: 0, to: 6 });
  await assert.rejects(read(stream), /paused for 30000 ms/);
  await givenUp;
  s3.fault = () => undefined;
  const whole = await read(await timed.open(key("a"), { from: 0, to: 6 }));
  assert.equal(String(whole), "content");
  assert.equal(clock.timers, 0);
});

async function server(
  t: TestContext,
  s3: S3Server,
  more: Options & { readonly clock?: SimClock } = {},
): Promise<RunningServer> {
  const { clock = systemClock } = more;
  const artifacts = new S3Artifacts({ ...settingsOf(s3), ...more.settings }, clock);
  return setupServer(t, { ...more, artifacts });
}

test(
  "a server gives out links to files of results, and removes files with their tasks",
  options,
  async (t) => {
    const { s3, artifacts } = await setup(t);
    const running = await server(t, s3);
    const id = await running.leased();
    const path = `/v1/codeq/tasks/${id}/artifacts/a.txt`;
    const put = { method: "PUT", caller: "worker-acme", body: "hello" } as const;
    assert.equal((await running.ask(path, put)).status, 201);
    const inline = { name: "b.txt", contentBase64: "aGk=", contentType: "text/plain" };
    const body = { status: "COMPLETED", result: {}, artifacts: [inline] };
    assert.equal((await running.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
    const redirect = await running.ask(path, { caller: "producer-acme" });
    assert.equal(redirect.status, 307, redirect.text);
    const got = await fetch(redirect.headers["location"] ?? "");
    assert.equal(await got.text(), "hello");
    assert.deepEqual(await listed(artifacts), ["a.txt", "b.txt"]);
    const removed = { method: "DELETE", caller: "admin-acme" } as const;
    assert.equal((await running.ask(`/v1/codeq/admin/tasks/${id}`, removed)).status, 204);
    assert.deepEqual(await listed(artifacts), []);
  },
);

test("a server whose store of files fails says so, and the task goes on", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  const running = await server(t, s3, { settings: { s3Redirect: false } as never });
  const id = await running.leased();
  s3.fault = () => ({ kind: "status", status: 403 });
  const inline = { name: "b.txt", contentBase64: "aGk=" };
  const body = { status: "COMPLETED", result: {}, artifacts: [inline] };
  const refused = await running.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.deepEqual(
    [refused.status, refused.headers["codeq-error"]],
    [503, "artifacts_unavailable"],
  );
  assert.equal((await running.task(id)).status, "IN_PROGRESS");
  s3.fault = () => undefined;
  assert.equal((await running.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
  assert.deepEqual(await listed(artifacts), ["b.txt"]);
  // Without a redirect the server passes the content on.
  const path = `/v1/codeq/tasks/${id}/artifacts/b.txt`;
  const part = { caller: "producer-acme", headers: { range: "bytes=1-1" } } as const;
  const got = await running.ask(path, part);
  assert.deepEqual([got.status, got.text], [206, "i"]);
});

test("a submit whose file stalls fails, and leaves nothing of it behind", options, async (t) => {
  const { s3, artifacts } = await setup(t);
  const { clock } = passTimeOnStall(s3, 60_000);
  const running = await server(t, s3, { clock, settings: { s3Redirect: false } as never });
  const id = await running.leased();
  const put = { method: "PUT", caller: "worker-acme", body: "hello" } as const;
  assert.equal((await running.ask(`/v1/codeq/tasks/${id}/artifacts/first`, put)).status, 201);
  s3.fault = ({ method }) => (method === "PUT" ? { kind: "stall request", bytes: 1 } : undefined);
  const file = { name: "second", contentBase64: "aGVsbG8=" };
  const body = { status: "COMPLETED", result: {}, artifacts: [file] };
  const refused = await running.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.deepEqual(
    [refused.status, refused.headers["codeq-error"], refused.headers["retry-after"]],
    [503, "artifacts_unavailable", "1"],
  );
  assert.equal((await running.task(id)).status, "IN_PROGRESS");
  assert.deepEqual(await listed(artifacts), ["first"]);
  s3.fault = () => undefined;
  assert.equal((await running.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
  assert.deepEqual(await listed(artifacts), ["first", "second"]);
});
