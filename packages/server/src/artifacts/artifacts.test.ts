import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

/** Runs in a process of its own, which may have few files open. */
const script = `
const { openSync, closeSync } = await import("node:fs");
const { Artifacts } = await import(process.argv[1] + "/artifacts.ts");
const { LocalArtifacts } = await import(process.argv[1] + "/local-artifacts.ts");
const artifacts = new Artifacts({
  provider: new LocalArtifacts(process.argv[2]),
  settings: { externalUrl: "", artifactBytesMax: 100, artifactUploadsMax: 2 },
  randomBytes: (into) => into.fill(7),
  clock: { nowMs: () => 0 },
});
const open = [];
try {
  for (;;) open.push(openSync("/dev/null", "r"));
} catch {}
const files = [{ name: "a", url: "", contentBase64: "aGk=", contentType: "" }];
const full = await artifacts.store("0199", files);
for (const each of open) closeSync(each);
const free = await artifacts.store("0199", files);
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
