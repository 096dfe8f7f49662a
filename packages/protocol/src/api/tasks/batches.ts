/** Batches: many tasks and one callback, which the server holds until all of them have ended. */

import { endpoints, invalidArgument, pageOf, pageQuery } from "../../contract/endpoint.ts";
import { count, flag, instant, list, object, raw, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { Artifact } from "./artifacts.ts";
import { templateFields } from "./schedules.ts";

const isOptional = { isOptional: true } as const;
const conditions = ["success", "end"] as const;

/** Unknown fields are refused: a batch that is not what was meant may never run its callback. */
export const BatchBody = object(
  {
    ...templateFields,
    on: text(
      "`success`: the callback runs when every member succeeded, and becomes a dead letter when one did not. " +
        "`end`: the callback runs when every member has ended.",
      { oneOf: conditions, none: "success" },
    ),
    failFast: flag(
      "The first failure seals the batch and cancels the members that have not ended.",
      {
        none: false,
      },
    ),
    openSeconds: whole(
      "How long the batch may stay open; then it expires and its callback fails.",
      {
        min: 1,
        max: limits.batchOpenSecondsMax,
        none: limits.batchOpenSecondsDefault,
      },
    ),
  },
  {
    name: "BatchOptions",
    about: "A batch as it is created: its callback, and when that runs.",
    isClosed: true,
  },
);

export const Batch = object(
  {
    id: text(),
    phase: text(
      "`open` takes members, `sealed` waits for them, `released`: the callback was released, `failed`: a member " +
        "failed and the callback is a dead letter, `cancelled`, or `expired`: the batch was not sealed in time.",
      { oneOf: ["open", "sealed", "released", "failed", "cancelled", "expired"] },
    ),
    on: text("", { oneOf: conditions }),
    failFast: flag("", { none: false }),
    command: text("The command of the callback."),
    callbackId: text("The task that runs at the end; its result can be awaited from the start."),
    total: count("All members."),
    pending: count("Members that have not ended."),
    succeeded: count("Members that completed."),
    failed: count("Members that are dead letters or failed."),
    cancelled: count("Members that were cancelled."),
    failure: object(
      { taskId: text(), error: text("", { none: "" }) },
      { about: "A member that failed.", ...isOptional },
    ),
    createdAt: instant(),
    openUntil: instant("When the batch expires unless it is sealed before.", isOptional),
    endedAt: instant("When the callback was released, failed or cancelled.", isOptional),
  },
  { name: "Batch", about: "A batch as it is now." },
);

export const BatchMember = object(
  {
    taskId: text(),
    command: text(),
    status: text("The task's status.", {
      oneOf: ["PENDING", "IN_PROGRESS", "COMPLETED", "FAILED"],
    }),
    result: raw("What the worker submitted.", { isObject: true, isOptional: true }),
    error: text("", { none: "" }),
    artifacts: list(Artifact, "Files that belong to the result.", isOptional),
  },
  { name: "BatchMember", about: "A member of a batch, with its result once it has ended." },
);

const params = {
  id: text("The id of the batch, chosen by the producer.", {
    pattern: limits.schedulePattern,
    rule: "1 to 128 letters, digits, dashes, dots, colons and underscores",
  }),
};
const producer = { access: "producer", scope: "codeq:create" } as const;
const found = { 200: { about: "The batch as it is now.", shape: Batch } };
const one = { params, refusals: ["batch_not_found"], replies: found } as const;
const ofChange = ["batch_not_found", "batch_over", "event_type_not_allowed"] as const;

export const batches = endpoints({
  putBatch: {
    key: "PUT /batches/:id",
    ...producer,
    summary: "Create a batch",
    about:
      "The batch is open: add members with `batchId` of `POST /tasks` or `POST /tasks/batch`, then seal it. The same " +
      "request again changes nothing.",
    params,
    outOfBounds: invalidArgument,
    body: BatchBody,
    refusals: [
      "invalid_command",
      "payload_too_large",
      "event_type_not_allowed",
      "batch_exists",
      "quota_exceeded",
    ],
    replies: {
      200: { about: "The batch was there.", shape: Batch },
      201: { about: "The batch is new.", shape: Batch },
    },
  },
  getBatch: {
    key: "GET /batches/:id",
    access: "either",
    summary: "Get a batch",
    ...one,
  },
  sealBatch: {
    key: "POST /batches/:id/seal",
    ...producer,
    summary: "Seal a batch",
    about:
      "No more members: the callback runs when those that were added have ended. A batch that is sealed stays as it is.",
    ...one,
    refusals: ofChange,
  },
  cancelBatch: {
    key: "POST /batches/:id/cancel",
    ...producer,
    summary: "Cancel a batch",
    about: "Cancels the callback and, in the background, the members that have not ended.",
    ...one,
    refusals: ofChange,
  },
  listBatchResults: {
    key: "GET /batches/:id/results",
    access: "either",
    summary: "List the members of a batch with their results",
    about: "They can be read until the callback is deleted.",
    params,
    query: {
      ...pageQuery(/^[0-9a-f-]{36}$/),
      failed: flag("Only members that failed.", { none: false }),
    },
    refusals: ["batch_not_found"],
    replies: {
      200: {
        about: "In the order of their ids.",
        shape: pageOf("BatchResults", "members", BatchMember),
      },
    },
  },
  listBatches: {
    key: "GET /admin/batches",
    access: "viewer",
    summary: "List batches",
    query: pageQuery(limits.schedulePattern),
    replies: {
      200: { about: "In the order of their ids.", shape: pageOf("Batches", "batches", Batch) },
    },
  },
  getAnyBatch: {
    key: "GET /admin/batches/:id",
    access: "viewer",
    summary: "Get a batch of the tenant",
    ...one,
  },
  sealAnyBatch: {
    key: "POST /admin/batches/:id/seal",
    access: "admin",
    summary: "Seal a batch of the tenant",
    about: "For a batch that its producer left open.",
    ...one,
    refusals: ofChange,
  },
  cancelAnyBatch: {
    key: "POST /admin/batches/:id/cancel",
    access: "admin",
    summary: "Cancel a batch of the tenant",
    ...one,
    refusals: ofChange,
  },
});
