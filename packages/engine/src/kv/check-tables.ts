/**
 * Checks tables in threads: a store of gigabytes is checked before it is opened, and again while it is
 * used, so the JavaScript thread must not do it. A few small tables are not worth a thread.
 */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { FaultError } from "../fault.ts";
import { damaged, type LiveTable, readStoreFiles, type StoreFiles } from "./manifest.ts";
import { checkTable } from "./table-file.ts";

/** The work that threads share: they take tables one by one until none is left. */
export interface SharedWork {
  readonly directory: string;
  readonly tables: readonly LiveTable[];
  /** A counter: which table is next. */
  readonly next: Int32Array;
}

/** What is wrong with a table; `missing` when there is no such file. */
export interface TableFinding {
  readonly name: string;
  readonly problem: string;
  readonly isMissing: boolean;
}

export interface CheckedTables {
  readonly tables: number;
  readonly bytes: number;
}

const threadsMax = 4;
const hereBytesMax = 8 * 1024 * 1024;
/** While a store is in use, its list of tables may change between two reads of it. */
const looksMax = 10;

/** Throws `corrupt` with the first table that is not whole, and the place in it. */
export async function checkTables(
  directory: string,
  tables: readonly LiveTable[],
): Promise<CheckedTables> {
  const [finding] = await findingsIn(directory, tables, availableParallelism());
  if (finding !== undefined) throw damaged(join(directory, finding.name), finding.problem);
  return sizeOf(tables);
}

/**
 * Checks the store while it is in use, in one thread. Compactions remove tables meanwhile: a missing table is
 * damage only when the store still needs it.
 */
export async function scrubTables(directory: string): Promise<CheckedTables> {
  const { tables } = lookAt(directory);
  const findings = await findingsIn(directory, tables, 1);
  for (const { name, problem, isMissing } of findings) {
    const isNeeded = lookAt(directory).tables.some((table) => table.name === name);
    if (isNeeded || !isMissing) throw damaged(join(directory, name), problem);
  }
  return sizeOf(tables);
}

/** Takes the next tables of the work and says what is wrong with them. */
export function checkNext({ directory, tables, next }: SharedWork): TableFinding[] {
  const findings: TableFinding[] = [];
  for (;;) {
    const table = tables[Atomics.add(next, 0, 1)];
    if (table === undefined) return findings;
    const { name, smallest, largest } = table;
    try {
      // Buffers arrive in a thread as plain arrays of bytes.
      const ends = { smallest: Buffer.from(smallest), largest: Buffer.from(largest) };
      const problem = checkTable(join(directory, name), { ...table, ...ends });
      if (problem !== undefined) findings.push({ name, problem, isMissing: false });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const isMissing = code === "ENOENT";
      findings.push({ name, problem: `cannot be read: ${message}`, isMissing });
    }
  }
}

async function findingsIn(
  directory: string,
  tables: readonly LiveTable[],
  threads: number,
): Promise<readonly TableFinding[]> {
  const next = new Int32Array(new SharedArrayBuffer(4));
  const work: SharedWork = { directory, tables, next };
  if (sizeOf(tables).bytes <= hereBytesMax) return checkNext(work);
  const count = Math.min(threads, threadsMax, tables.length);
  const found = await Promise.all(Array.from({ length: count }, () => inThread(work)));
  return found.flat();
}

const thread: string = fileURLToPath(import.meta.url).replace(
  /check-tables\.(ts|js)$/,
  "check-tables-thread.$1",
);

function inThread(work: SharedWork): Promise<TableFinding[]> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(thread, { workerData: work });
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", (code) => {
      reject(new FaultError("storage_failed", `a thread that checks tables ended with ${code}`));
    });
  });
}

function lookAt(directory: string): StoreFiles {
  for (let look = 1; ; look += 1) {
    try {
      return readStoreFiles(directory);
    } catch (error) {
      if (look === looksMax) throw error;
    }
  }
}

function sizeOf(tables: readonly LiveTable[]): CheckedTables {
  return { tables: tables.length, bytes: tables.reduce((sum, { bytes }) => sum + bytes, 0) };
}
