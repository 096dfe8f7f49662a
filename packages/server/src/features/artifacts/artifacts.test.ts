import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import test from "node:test";
import { limits } from "@codeq/protocol";
import type { TaskId, TenantId } from "@codeq/queue";
import { SimClock, settle } from "@codeq/simulated";
import type { ArtifactProvider } from "./artifact-provider.ts";
import { Artifacts } from "./artifacts.ts";

/** Runs in a process of its own, which may have few files open. */
const script = `
const { openSync, closeSync } = await import("node:fs");
const { Artifacts } = await import(process.argv[1] + "/artifacts.ts");
const { LocalArtifacts } = await import(process.argv[1] + "/local-artifacts.ts");
const artifacts = new Artifacts({
  provider: new LocalArtifacts({ localArtifactsDir: process.argv[2], minFreeDiskBytes: 0 }),
  settings: { externalUrl: "", tlsCertFile: "", artifactBytesMax: 100, artifactUploadsMax: 2 },
  randomBytes: (into) => into.fill(7),
  clock: { nowMs: () => 0 },
});
const open = [];
try {
  for (;;) open.push(openSync("/dev/null", "r"));
} catch {}
const owner = { tenantId: "acme", id: "0199" };
const files = [{ name: "a", url: "", contentBase64: "aGk=", contentType: "" }];
const full = await artifacts.store(owner, files);
for (const each of open) closeSync(each);
const free = await artifacts.store(owner, files);
console.log(JSON.stringify({ full, free }));
`;

test("an upload at the limit of open files is to be tried again, and leaves nothing", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "codeq-artifacts-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const source = import.meta.dirname;
  const node = [process.execPath, "--conditions=source", "--input-type=module", "-e", script];
  const limited = ["-c", 'ulimit -n 128 && exec "$@"', "sh", ...node, source, directory];
  const { stdout, stderr } = spawnSync("sh", limited, { encoding: "utf8" });
  assert.notEqual(stdout, "", stderr);
  const { full, free } = JSON.parse(stdout);
  const text = "too many files are open; try again";
  assert.deepEqual(full, { ok: false, code: "artifacts_unavailable", text, retryAfterMs: 1000 });
  assert.equal(free.ok, true);
  assert.equal(readdirSync(join(directory, "results", "0199")).length, 1);
});

const settings = {
  externalUrl: "",
  tlsCertFile: "",
  artifactBytesMax: 100,
  artifactUploadsMax: 2,
};

test("artifacts that are read at the same time have a limit, half of it for one tenant", async () => {
  const missing = "missing";
  const provider = {
    open: (key) => Promise.resolve(key.name === missing ? undefined : new PassThrough()),
  } as Partial<ArtifactProvider> as ArtifactProvider;
  const clock = new SimClock();
  const artifacts = new Artifacts({ provider, settings, randomBytes: () => {}, clock });
  const open = (tenant: string, name = "a") => {
    const url = "https://codeq.example/a?upload=0123456789abcdef";
    const artifact = { name, url, sha256: "0".repeat(64) };
    const of = { tenantId: tenant as TenantId, id: "0199" as TaskId };
    return artifacts.open(of, artifact, { from: 0, to: 1 });
  };
  const ofTenant = limits.artifactDownloadsMax / 2;
  const opened: unknown[] = [];
  for (let n = 0; n < ofTenant; n++) {
    assert.equal(await open("acme", missing), undefined);
    opened.push(await open("acme"));
  }
  assert.ok(opened.every((each) => each instanceof PassThrough));
  assert.equal(await open("acme"), "crowded");
  assert.ok((await open("globex")) instanceof PassThrough);
  const [first] = opened as PassThrough[];
  first?.destroy();
  await once(first as PassThrough, "close");
  assert.ok((await open("acme")) instanceof PassThrough);
});

test("files inside of results wait for a slow store, and are refused when it takes too long", async () => {
  const clock = new SimClock();
  const gate = Promise.withResolvers<void>();
  let puts = 0;
  const put = (): Promise<void> => {
    puts += 1;
    return gate.promise;
  };
  const provider = { put, remove: async () => {} } as Partial<ArtifactProvider> as ArtifactProvider;
  const artifacts = new Artifacts({ provider, settings, randomBytes: () => {}, clock });
  const file = (name: string) => ({ name, url: "", contentBase64: "aGk=", contentType: "" });
  const store = (tenant: string, ...names: string[]) =>
    artifacts.store({ tenantId: tenant as TenantId, id: "0199" as TaskId }, names.map(file));
  const first = store("acme", "a");
  const crowded = store("acme", "b", "c", "d", "e", "f", "g", "h");
  const other = store("globex", "a");
  await settle();
  assert.equal(puts, 2, "one of each tenant");
  await clock.advance(10_000);
  const text = "too many artifacts are being stored; try again";
  assert.deepEqual(await crowded, { ok: false, code: "overloaded", text, retryAfterMs: 1000 });
  assert.equal(clock.timers, 0, "the rest of its files does not wait");
  gate.resolve();
  assert.deepEqual([(await first).ok, (await other).ok], [true, true]);
});
