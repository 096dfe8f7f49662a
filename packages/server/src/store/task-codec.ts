/**
 * Task and result records as text: a JSON array, one position per field. Positions are only added at
 * the end; `format.ts` counts the versions. A record that does not decode answers undefined and is the
 * caller's to quarantine.
 *
 * What is short travels with the task: behind its array come the result's and the payload, each after
 * a line feed and empty when it has a key of its own. The arrays contain no line feed, so the payload
 * is everything behind the second one. To rewrite a short payload with every change of the task costs
 * less than a key of its own: one entry less in memory, in every flush and in every compaction.
 */
import type {
  Artifact,
  IdempotencyEntry,
  Place,
  Result,
  Task,
  TaskId,
  TenantId,
  WorkerId,
} from "@codeq/queue";

/** The most text that travels with a task; longer payloads and results have keys of their own. */
const shortCharsMax = 512;

export function isShort(text: string): boolean {
  return text.length <= shortCharsMax;
}

/** Takes the encoded result when it travels with the task. */
export function encodeTask(task: Task, result: string): string {
  return `${encodeRow(task)}\n${result}\n${task.payload ?? ""}`;
}

/** One call over one array: faster than text put together by hand, which has to be flattened. */
function encodeRow(task: Task): string {
  const place = lastCells(task);
  const row = [
    task.id,
    task.tenantId,
    task.command,
    task.priority,
    task.webhook,
    task.traceParent,
    task.traceState,
    task.idempotencyKey,
    task.maxAttempts,
    task.attempts,
    task.handBacks,
    task.leaseToken,
    task.error,
    task.createdMs,
    task.updatedMs,
    // Up to five, written out because an array that grows is allocated twice.
    place[0],
    place[1],
    place[2],
    place[3],
    place[4],
  ];
  row.length = placeAt + place.length;
  return JSON.stringify(row);
}

/** The place, whose length depends on its kind, and what was added to the format behind it. */
function lastCells({ place, storedBytes }: Task): readonly (string | number | null)[] {
  switch (place.in) {
    case "ready":
      return ["r", place.seq, storedBytes];
    case "delayed":
      return ["w", place.dueMs, storedBytes];
    case "leased":
      return ["l", place.workerId, place.untilMs, place.leaseMs, storedBytes];
    case "dead":
      return ["d", place.atMs, place.expiresMs ?? null, storedBytes];
    case "done": {
      const kind = place.how === "completed" ? "c" : "f";
      return [kind, place.workerId, place.atMs, place.expiresMs, storedBytes];
    }
  }
}

/** Whether each position up to the place holds a string or a number. */
const taskShape = "s s s n s s s s n n n n s n n".split(" ");
const placeAt = taskShape.length;

/** What the index keys of a task follow from. */
export type IndexedTask = Pick<Task, "id" | "tenantId" | "command" | "priority" | "place">;

/** Also reads the format before, which has all of it in the same positions. */
export function decodeIndexed(text: string): IndexedTask | undefined {
  const row = rowIn(text);
  return row && indexedIn(row);
}

function rowIn(text: string): unknown[] | undefined {
  const rowEnd = text.indexOf("\n");
  const row = parseArray(rowEnd === -1 ? text : text.slice(0, rowEnd));
  return row !== undefined && matches(row, taskShape) ? row : undefined;
}

function indexedIn(row: readonly unknown[]): IndexedTask | undefined {
  const place = decodePlace(row.slice(placeAt));
  if (place === undefined) return undefined;
  return {
    id: row[0] as TaskId,
    tenantId: row[1] as TenantId,
    command: row[2] as string,
    priority: row[3] as number,
    place,
  };
}

export function decodeTask(stored: Buffer | string): Task | undefined {
  const text = stored.toString();
  const row = rowIn(text);
  const indexed = row && indexedIn(row);
  if (row === undefined || indexed === undefined) return undefined;
  const storedBytes = row[placeAt + (placeLengths.get(row[placeAt]) ?? 0)];
  if (typeof storedBytes !== "number") return undefined;
  const { id, tenantId, command, priority, place } = indexed;
  return {
    id,
    tenantId,
    command,
    priority,
    webhook: row[4] as string,
    traceParent: row[5] as string,
    traceState: row[6] as string,
    idempotencyKey: row[7] as string,
    payload: payloadIn(text),
    maxAttempts: row[8] as number,
    attempts: row[9] as number,
    handBacks: row[10] as number,
    leaseToken: row[11] as number,
    error: row[12] as string,
    createdMs: row[13] as number,
    updatedMs: row[14] as number,
    storedBytes,
    place,
  };
}

/** Undefined when the payload has a key of its own, as in records that consist of the array only. */
function payloadIn(text: string): string | undefined {
  const rowEnd = text.indexOf("\n");
  const resultEnd = rowEnd === -1 ? -1 : text.indexOf("\n", rowEnd + 1);
  return resultEnd === -1 ? undefined : text.slice(resultEnd + 1) || undefined;
}

/** The encoded result that travels with the task; undefined when there is none. */
export function resultIn(text: string): string | undefined {
  const rowEnd = text.indexOf("\n");
  if (rowEnd === -1) return undefined;
  return text.slice(rowEnd + 1, text.indexOf("\n", rowEnd + 1)) || undefined;
}

/** Whether the task's payload has a key of its own. */
export function isPayloadApart(text: string): boolean {
  return text.endsWith("\n") || !text.includes("\n");
}

/** What follows each kind of place; the end of a burial may be null and is checked apart. */
const placeShapes = new Map([
  ["r", ["n"]],
  ["w", ["n"]],
  ["l", ["s", "n", "n"]],
  ["d", ["n"]],
  ["c", ["s", "n", "n"]],
  ["f", ["s", "n", "n"]],
]);

/** How many cells each kind of place has, with the one that names it. */
const placeLengths: ReadonlyMap<unknown, number> = new Map([
  ["r", 2],
  ["w", 2],
  ["l", 4],
  ["d", 3],
  ["c", 4],
  ["f", 4],
]);

function decodePlace([kind, ...cells]: readonly unknown[]): Place | undefined {
  const shape = placeShapes.get(kind as string);
  if (shape === undefined || !matches(cells, shape)) return undefined;
  const [a, b, c] = cells;
  switch (kind) {
    case "r":
      return { in: "ready", seq: a as number };
    case "w":
      return { in: "delayed", dueMs: a as number };
    case "l":
      return { in: "leased", workerId: a as WorkerId, untilMs: b as number, leaseMs: c as number };
    case "d":
      if (b !== null && typeof b !== "number") return undefined;
      return { in: "dead", atMs: a as number, expiresMs: b ?? undefined };
    default:
      return {
        in: "done",
        how: kind === "c" ? "completed" : "failed",
        workerId: a as WorkerId,
        atMs: b as number,
        expiresMs: c as number,
      };
  }
}

export function encodeResult(result: Result): string {
  return JSON.stringify([
    result.taskId,
    result.status === "COMPLETED" ? "c" : "f",
    result.resultJson,
    result.error,
    result.attempts,
    result.completedMs,
    result.artifacts.map(({ name, url }) => [name, url]),
  ]);
}

export function decodeResult(stored: Buffer | string): Result | undefined {
  const row = parseArray(stored);
  if (row === undefined || !matches(row, ["s", "s", "s", "s", "n", "n"])) return undefined;
  const artifacts = decodeArtifacts(row[6]);
  if (artifacts === undefined || (row[1] !== "c" && row[1] !== "f")) return undefined;
  return {
    taskId: row[0] as TaskId,
    status: row[1] === "c" ? "COMPLETED" : "FAILED",
    resultJson: row[2] as string,
    error: row[3] as string,
    attempts: row[4] as number,
    completedMs: row[5] as number,
    artifacts,
  };
}

function decodeArtifacts(cell: unknown): Artifact[] | undefined {
  if (!Array.isArray(cell)) return undefined;
  const artifacts: Artifact[] = [];
  for (const pair of cell) {
    if (!Array.isArray(pair) || !matches(pair, ["s", "s"])) return undefined;
    artifacts.push({ name: pair[0] as string, url: pair[1] as string });
  }
  return artifacts;
}

export function encodeIdempotency(entry: IdempotencyEntry): string {
  return JSON.stringify([entry.taskId, entry.queue, entry.payloadHash]);
}

export function decodeIdempotency(stored: Buffer | string): IdempotencyEntry | undefined {
  const row = parseArray(stored);
  if (row === undefined || !matches(row, ["s", "s", "s"])) return undefined;
  const [taskId, queue, payloadHash] = row as [TaskId, string, string];
  return { taskId, queue, payloadHash };
}

function parseArray(stored: Buffer | string): unknown[] | undefined {
  try {
    const row: unknown = JSON.parse(stored.toString());
    return Array.isArray(row) ? row : undefined;
  } catch {
    // The caller learns from the missing record and keeps the bytes.
    return undefined;
  }
}

function matches(row: readonly unknown[], shape: readonly string[]): boolean {
  return shape.every((kind, position) => {
    const cell = row[position];
    return kind === "s" ? typeof cell === "string" : typeof cell === "number";
  });
}
