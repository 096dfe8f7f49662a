/** Batches: many tasks and one callback. The broker of the batch's shard keeps and counts them. */
import { api } from "@codeq/protocol/api";
import { problemOfUrl } from "../../core/outbound/webhook-url.ts";
import {
  type BatchOptions,
  type ShownBatch,
  taskOfAfter,
} from "../../core/records/batch-record.ts";
import { bind } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { overQuota } from "../../edge/refusal-of.ts";

export const putBatch = bind(api.batches.putBatch, {
  run: async (server, call, { id, ...options }) => {
    const { tenantId, creates } = call.identity;
    if (taskOfAfter(id) !== undefined) return refusal("invalid_argument", reserved);
    const problem = problemOf(server, options);
    if (problem !== undefined) return problem;
    if (creates?.has(options.command.toLowerCase()) === false) {
      return refusal("event_type_not_allowed");
    }
    const put = await server.broker.batches.put({ tenantId, id }, options);
    if (put.ok) return { ok: true, value: put };
    return put.code === "quota_exceeded" ? overQuota(server, put.exceeded) : refusal(put.code);
  },
  show: ({ batch, isNew }) => ({ status: isNew ? 201 : 200, value: batch }),
});

const reserved = "invalid 'id' (after: and the id of a task are the batch of a task with 'after')";

function problemOf({ config }: Server, { webhook, payload }: BatchOptions): Refusal | undefined {
  const urlProblem = webhook && problemOfUrl("webhook", webhook, config);
  if (urlProblem) return refusal("invalid_argument", urlProblem);
  const { payloadBytesMax } = config;
  if (Buffer.byteLength(payload) <= payloadBytesMax) return undefined;
  const text = `the payload of the callback is larger than ${payloadBytesMax} bytes; store the data elsewhere and put its name into the payload`;
  return refusal("payload_too_large", text);
}

interface OfBatch {
  readonly id: string;
}

async function found({ broker }: Server, call: Call, { id }: OfBatch): Promise<Answer<ShownBatch>> {
  const batch = await broker.batches.get({ tenantId: call.identity.tenantId, id });
  return batch === undefined ? refusal("batch_not_found") : { ok: true, value: batch };
}

/** A caller that may not create the callback may not change the batch. */
async function changed(
  server: Server,
  call: Call,
  { id }: OfBatch,
  verb: "seal" | "cancel",
): Promise<Answer<ShownBatch>> {
  const { tenantId, creates } = call.identity;
  const batch = await found(server, call, { id });
  if (!batch.ok) return batch;
  if (creates?.has(batch.value.command.toLowerCase()) === false) {
    return refusal("event_type_not_allowed");
  }
  const answer = await server.broker.batches[verb]({ tenantId, id });
  return answer.ok ? { ok: true, value: answer.batch } : refusal(answer.code);
}

export const getBatch = bind(api.batches.getBatch, { run: found });

export const sealBatch = bind(api.batches.sealBatch, {
  run: (server, call, of) => changed(server, call, of, "seal"),
});

export const cancelBatch = bind(api.batches.cancelBatch, {
  run: (server, call, of) => changed(server, call, of, "cancel"),
});

export const listBatchResults = bind(api.batches.listBatchResults, {
  showsPayloads: true,
  run: async ({ broker }, call, { id, limit, after, failed }) => {
    const of = { tenantId: call.identity.tenantId, id };
    const page = await broker.batches.members(of, { limit, after, failed });
    return page === undefined ? refusal("batch_not_found") : { ok: true, value: page };
  },
});

export const listBatches = bind(api.batches.listBatches, {
  run: async ({ broker }, call, { limit, after }) => {
    const { tenantId } = call.identity;
    const { items, reached } = await broker.batches.list({ tenantId, after, limit });
    return { ok: true, value: { batches: items, next: reached } };
  },
});

export const getAnyBatch = bind(api.batches.getAnyBatch, {
  run: found,
});

export const sealAnyBatch = bind(api.batches.sealAnyBatch, {
  run: (server, call, of) => changed(server, call, of, "seal"),
});

export const cancelAnyBatch = bind(api.batches.cancelAnyBatch, {
  run: (server, call, of) => changed(server, call, of, "cancel"),
});
