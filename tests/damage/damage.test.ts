/**
 * The short form of `npm run damage`: what LevelDB would have served, and one of each kind of the rest.
 */
import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ApiClient } from "../e2e/api-client.ts";
import { endOfServer, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { type Damage, damagesOf } from "./damages.ts";
import { copyDirectory, filesBelow, type Prepared, prepare, small } from "./prepare.ts";
import { judge, readEverything } from "./verdict.ts";

const directory = temporaryDirectory();
let subject: Prepared;
let damages: readonly Damage[];

before(async () => {
  subject = await prepare(directory.path, "subject", small);
  damages = damagesOf(subject, await prepare(directory.path, "other", small));
});

after(() => directory.dispose());

const cases: readonly (readonly [file: RegExp, what: string, outcomes: readonly string[]])[] = [
  [/^kv\/\d+\.ldb:/, "a bit flipped at the middle", ["refused"]],
  [/^kv\/\d+\.ldb:/, "replaced by that of another server", ["refused"]],
  [/^kv\/\d+\.log:/, "a bit flipped at the middle", ["served"]],
  [/^kv\/\d+\.log:/, "deleted", ["served"]],
  [/^kv\/CURRENT:/, "deleted", ["refused"]],
  [/^kv\/MANIFEST/, "a bit flipped at the middle", ["refused"]],
  [/^kv:/, "deleted", ["refused"]],
  [/^kv:/, "replaced by an older copy", ["served"]],
  [/^kv:/, "replaced by that of another server", ["refused"]],
  [/^log:/, "deleted", ["refused"]],
  [/^log:/, "replaced by that of another server", ["refused"]],
  [/^log\/0/, "a bit flipped at the middle", ["refused"]],
  [/^log\/0/, "cut in the middle", ["refused"]],
  [/^log\/0/, "full of zeros", ["refused"]],
  [/^log:/, "replaced by an older copy", ["refused"]],
  [/^witness:/, "deleted", ["repaired"]],
  [/^witness:/, "replaced by that of another server", ["refused"]],
  [/^lock\/CURRENT:/, "full of zeros", ["served"]],
];

for (const [file, what, outcomes] of cases) {
  test(`${file.source} ${what}: ${outcomes.join(" or ")}`, async () => {
    const damage = damages.find(({ name }) => file.test(name) && name.endsWith(what));
    assert.ok(damage, "there is such a file");
    const verdict = await judge(subject, damage, join(directory.path, "work"));
    assert.ok(outcomes.includes(verdict.outcome), JSON.stringify(verdict));
  });
}

test("a table that rots under a running server is served right, or not at all, and found at the next start", async () => {
  const work = join(directory.path, "rot");
  copyDirectory(subject.directory, work);
  const server = await startServer({ dataDir: work });
  try {
    const tables = filesBelow(work).filter((path) => /^kv\/\d+\.ldb$/.test(path));
    for (const table of tables) {
      const path = join(work, table);
      const bytes = readFileSync(path);
      // In place: LevelDB has the file open. The first blocks hold values, the last ones the index.
      const file = openSync(path, "r+");
      for (let at = 100; at < bytes.length * 0.8; at += 997) {
        writeSync(file, Buffer.from([(bytes[at] as number) ^ 4]), 0, 1, at);
      }
      closeSync(file);
    }
    const reading = readEverything(new ApiClient(server.port), subject);
    // An assertion of LevelDB may end the process when it compacts what has rotted: not served at all.
    const aborted = server.exited.then(({ signal, stderr }) => {
      assert.equal(signal, "SIGABRT", stderr);
      return [];
    });
    const problems = await Promise.race([reading.catch(() => aborted), aborted]);
    // An index or a filter that cannot be read, or that lost a key, hides it until the next check.
    const isHidden = /cannot be claimed$| is 404 /;
    assert.deepEqual(
      problems.filter((problem) => !isHidden.test(problem)),
      [],
    );
  } finally {
    await server.kill();
  }
  const exit = await endOfServer({ dataDir: work });
  assert.equal(exit.code, 4, exit.stderr);
  assert.match(exit.stderr, /kv\/\d+\.ldb/);
});
