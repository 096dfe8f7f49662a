/** What `codeq salvage` finds in a directory of which files are damaged: less, but never anything wrong. */
import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  type SalvagedTask,
  salvageTasks,
} from "../../packages/server/src/core/backup/salvage-tasks.ts";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { type Prepared, prepare, small } from "./prepare.ts";

interface Salvage {
  readonly tasks: readonly SalvagedTask[];
  readonly damages: readonly string[];
}

async function salvage(directory: string): Promise<Salvage> {
  const damages: string[] = [];
  const tasks = await salvageTasks(directory, (what) => damages.push(what));
  return { tasks, damages };
}

/** How many payloads and results were found, all of them as they were written. */
function assertRight({ tasks }: Salvage, { pending, results }: Prepared, what: string): number {
  let found = 0;
  for (const { task, payload, result } of tasks) {
    const written = pending.get(task.id);
    if (payload !== undefined && written !== undefined) {
      assert.ok(payload === written, `${what}: the payload of ${task.id} is another one`);
      found += 1;
    }
    if (result === undefined) continue;
    assert.ok(result.json === results.get(task.id), `${what}: the result of ${task.id} is wrong`);
    found += 1;
  }
  return found;
}

const root = temporaryDirectory();
let prepared: Prepared;

before(async () => {
  prepared = await prepare(root.path, "whole", small);
});

after(() => root.dispose());

test("all that can be read of damaged files is found, and nothing else", async () => {
  const whole = await salvage(prepared.directory);
  assert.deepEqual(whole.damages, []);
  const all = assertRight(whole, prepared, "whole");
  assert.equal(all, prepared.pending.size + prepared.results.size);
  let lost = 0;
  for (const path of filesToDamage(prepared.directory)) {
    const shares = path.endsWith(".log") ? [0.5] : tableShares;
    for (const share of shares) {
      const undo = flip(path, share);
      const found = assertRight(await salvage(prepared.directory), prepared, `${path} ${share}`);
      assert.ok(found > 0);
      if (found < all) lost += 1;
      undo();
    }
  }
  assert.ok(lost > 0, "some of the damages were in bytes that matter");
});

test("without the names of its tables, or without its log, most of a store is still found", async () => {
  for (const gone of ["kv/CURRENT", "kv", "log"]) {
    const copy = join(root.path, "copy");
    cpSync(prepared.directory, copy, { recursive: true });
    rmSync(join(copy, gone), { recursive: true });
    const salvaged = await salvage(copy);
    assert.ok(salvaged.damages.length > 0, gone);
    assert.ok(assertRight(salvaged, prepared, gone) > 0, gone);
    rmSync(copy, { recursive: true });
  }
});

const tableShares = Array.from({ length: 12 }, (_, at) => (at + 0.25) / 12);

/** Tables and segments. */
function filesToDamage(directory: string): string[] {
  const [kv, log] = [join(directory, "kv"), join(directory, "log")];
  const tables = readdirSync(kv).filter((name) => name.endsWith(".ldb"));
  const segments = readdirSync(log).filter((name) => /^\d+\.log$/.test(name));
  return [...tables.map((name) => join(kv, name)), ...segments.map((name) => join(log, name))];
}

/** Returns how to undo it. Segments of the log are longer than what was written to them. */
function flip(path: string, share: number): () => void {
  const bytes = readFileSync(path);
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  const at = Math.floor(end * share);
  const before = bytes[at] ?? 0;
  bytes[at] = before ^ 0x10;
  writeFileSync(path, bytes);
  return () => {
    bytes[at] = before;
    writeFileSync(path, bytes);
  };
}
