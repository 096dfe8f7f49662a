/** `batches`: many tasks with one callback. */
import type { ItemOf, ReplyOf } from "@codeq/client/command-line";
import * as contract from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { checkCommand, readPayload, withPayload } from "../../payload.ts";
import { printable } from "../../terminal/style.ts";
import type { Column } from "../../terminal/table.ts";
import { count, localMoment, momentOr } from "../../terminal/units.ts";
import { sayBegun } from "../failures/jobs.ts";
import { enqueue } from "./enqueue.ts";

type Batch = ReplyOf<"GET /batches/:id">;

const errorCharsMax = 60;

export async function create(call: Call): Promise<void> {
  const payload = await readPayload(call, call.word(2) || "{}", call.options.has("text"));
  const fields = {
    ...contract.bodyOf(call, "PUT /batches/:id"),
    command: checkCommand(call.word(1)),
  };
  const body = withPayload(fields, payload);
  return contract.print(call, ["PUT /batches/:id", { ...ofOne(call), body }], say);
}

export function add(call: Call): Promise<number | undefined> {
  const [batchId, command, payload = ""] = call.words as [string, string, string?];
  return enqueue(call, { command, payload, batchId });
}

export function seal(call: Call): Promise<void> {
  return contract.print(call, ["POST /batches/:id/seal", ofOne(call)], say);
}

export function cancel(call: Call): Promise<void> {
  return contract.print(call, ["POST /batches/:id/cancel", ofOne(call)], say);
}

function say({ id, phase, total, pending, callbackId }: Batch): string {
  const waits = phase === "open" || phase === "sealed";
  const members = waits ? `; ${count(pending)} of ${count(total)} members have not ended` : "";
  return `${id} is ${phase}${members}; callback ${callbackId}`;
}

const columns: readonly Column<Batch>[] = [
  { title: "BATCH", show: ({ id }) => id },
  { title: "PHASE", show: ({ phase }) => phase },
  { title: "MEMBERS", align: "right", show: ({ total }) => count(total) },
  { title: "WAITING", align: "right", show: ({ pending }) => count(pending) },
  { title: "DONE", align: "right", show: ({ succeeded }) => count(succeeded) },
  { title: "FAILED", align: "right", show: ({ failed }) => count(failed) },
  { title: "CANCELLED", align: "right", show: ({ cancelled }) => count(cancelled) },
  { title: "CALLBACK", show: ({ command, callbackId }) => `${command} ${callbackId.slice(-8)}` },
  { title: "CREATED", show: ({ createdAt }) => localMoment(createdAt) },
  { title: "ENDED", show: ({ endedAt }) => momentOr(endedAt, "-") },
];

export function list(call: Call): Promise<void> {
  const none = "no batches; codeq batches create makes one";
  return contract.showAll(call, "GET /admin/batches", { columns, none });
}

export function get(call: Call): Promise<void> {
  return contract.showOne(call, ["GET /batches/:id", ofOne(call)], columns);
}

const memberColumns: readonly Column<ItemOf<"GET /batches/:id/results">>[] = [
  { title: "TASK", show: ({ taskId }) => taskId },
  { title: "COMMAND", show: ({ command }) => command },
  { title: "STATUS", show: ({ status }) => status },
  { title: "ERROR", show: ({ error = "" }) => printable(error.slice(0, errorCharsMax)) || "-" },
];

export function members(call: Call): Promise<void> {
  const { options } = call;
  const query = options.has("failed") ? { failed: "true" } : {};
  const limit = options.wholeNumber("limit", { min: 1, max: 1_000_000 });
  const listing = { columns: memberColumns, none: "no members", query, isLines: true };
  const given = { ...listing, ...ofOne(call), ...(limit === undefined ? {} : { limit }) };
  return contract.showAll(call, "GET /batches/:id/results", given);
}

export function replay(call: Call): Promise<void> {
  const { ratePerSecond } = contract.bodyOf(call, "POST /admin/jobs");
  const dryRun = call.options.has("dry-run") ? true : undefined;
  const filter = { batch: call.word(0), place: "failure" } as const;
  const body = { action: "replay", ...filter, ratePerSecond, dryRun } as const;
  return contract.print(call, ["POST /admin/jobs", { body }], sayBegun);
}

function ofOne(call: Call): { readonly params: { readonly id: string } } {
  return { params: { id: call.word(0) } };
}
