/**
 * Who may call what. One row per route of the server and one column per kind of caller; a route
 * without a row fails. Every refusal must leave the store as it was, and one that is decided by the
 * token alone must not even look into it.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { errors, limits } from "@codeq/protocol";
import { SimIssuer } from "@codeq/simulated";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { MemoryArtifacts } from "../../packages/server/src/features/artifacts/artifact-provider.ts";
import { routes } from "../../packages/server/src/start/features.ts";
import { watchReads } from "../../packages/server/test/engine-of.ts";
import {
  type Access,
  accessOptions,
  blindOperator,
  columns,
  type Expected,
  hiddenTokens,
  type Refused,
  refusedKind,
} from "./access-callers.ts";
import { type Reply, type RunningServer, setup, startMs, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

interface Row {
  readonly access: Access;
  readonly path: (ids: Ids) => string;
  readonly body?: (ids: Ids) => unknown;
  /** 409 for what only a node of a cluster can do. */
  readonly ok: number;
  /** What a caller of the other tenant gets for the ids of this one. */
  readonly foreign: number | Refused;
  /** Which command it is about is only known from the task. */
  readonly readsTask?: true;
  /** It is of no use to those from whom payloads are hidden, and refused. */
  readonly showsPayloads?: true;
  /** It goes on until the server ends it. */
  readonly isEndless?: true;
  /** What another worker of the same tenant gets for a task that is not its own. */
  readonly otherWork?: Refused;
}

interface Ids {
  readonly leased: string;
  readonly done: string;
  readonly dead: string;
  readonly waiting: string;
  readonly apiKey: string;
  readonly job: string;
  /** An endpoint of webhooks that is disabled. */
  readonly endpoint: string;
  readonly webhookSecret: string;
  readonly subscription: string;
}

const result = { status: "COMPLETED", result: { classified: 1 } };
const yearly = { cron: "0 0 1 1 *" };
const noSchedule: Refused = [404, "schedule not found"];
const noBatch: Refused = [
  404,
  "batch not found: create it with PUT /v1/codeq/batches/<id>; a batch is deleted with its callback",
];
const notOwner: Refused = [403, "not-owner"];
const submitForeign: Refused = [404, "task not found"];
const verbForeign: Refused = [404, "not-found"];
const otherType: Refused = [403, "event type not allowed"];

const table: Readonly<Record<string, Row>> = {
  "POST /v1/codeq/tasks": {
    access: "producer",
    path: () => "/v1/codeq/tasks",
    body: () => ({ command: "new", payload: 1 }),
    ok: 202,
    foreign: 202,
  },
  "POST /v1/codeq/tasks/batch": {
    access: "producer",
    path: () => "/v1/codeq/tasks/batch",
    body: () => ({ tasks: [{ command: "new", payload: 1 }] }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/tasks/claim": {
    access: "worker",
    path: () => "/v1/codeq/tasks/claim",
    body: () => ({ commands: ["print"] }),
    ok: 200,
    foreign: 204,
    otherWork: [403, "event type not allowed"],
  },
  "POST /v1/codeq/tasks/claim/batch": {
    access: "worker",
    path: () => "/v1/codeq/tasks/claim/batch",
    body: () => ({ count: 2, commands: ["render", "print"] }),
    ok: 200,
    foreign: 204,
    otherWork: [403, "event type not allowed"],
  },
  "POST /v1/codeq/tasks/:id/heartbeat": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/heartbeat`,
    body: () => ({ extendSeconds: 5000 }),
    ok: 200,
    foreign: verbForeign,
    otherWork: notOwner,
  },
  "POST /v1/codeq/tasks/:id/abandon": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/abandon`,
    body: () => ({}),
    ok: 200,
    foreign: verbForeign,
    otherWork: notOwner,
  },
  "POST /v1/codeq/tasks/:id/nack": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/nack`,
    body: () => ({ delaySeconds: 1 }),
    ok: 200,
    foreign: verbForeign,
    otherWork: notOwner,
  },
  "POST /v1/codeq/tasks/:id/result": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/result`,
    body: () => result,
    ok: 200,
    foreign: submitForeign,
    otherWork: notOwner,
  },
  "POST /v1/codeq/tasks/batch/results": {
    access: "worker",
    path: () => "/v1/codeq/tasks/batch/results",
    body: ({ leased }) => ({ results: [{ taskId: leased, ...result }] }),
    ok: 200,
    foreign: submitForeign,
    otherWork: notOwner,
  },
  "GET /v1/codeq/tasks/:id": {
    access: "either",
    showsPayloads: true,
    path: ({ done }) => `/v1/codeq/tasks/${done}`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/tasks/:id/result": {
    access: "either",
    showsPayloads: true,
    path: ({ done }) => `/v1/codeq/tasks/${done}/result?waitSeconds=60`,
    ok: 200,
    foreign: [404, "task not found"],
  },
  "GET /v1/codeq/admin/queues": {
    access: "viewer",
    path: () => "/v1/codeq/admin/queues",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/queues/:command": {
    access: "viewer",
    path: () => "/v1/codeq/admin/queues/print",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/queues/:command/series": {
    access: "viewer",
    path: () => "/v1/codeq/admin/queues/print/series",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/failure-groups": {
    access: "viewer",
    path: () => "/v1/codeq/admin/failure-groups",
    ok: 200,
    foreign: 200,
  },
  "PUT /v1/codeq/admin/failure-groups/:id/triage": {
    access: "admin",
    path: () => "/v1/codeq/admin/failure-groups/3f2a9c1e5b7d/triage",
    body: () => ({ state: "resolved" }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/jobs": {
    access: "admin",
    path: () => "/v1/codeq/admin/jobs",
    body: () => ({ action: "replay", command: "none" }),
    ok: 201,
    foreign: 201,
  },
  "GET /v1/codeq/admin/jobs": {
    access: "viewer",
    path: () => "/v1/codeq/admin/jobs",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/jobs/:id": {
    access: "viewer",
    path: ({ job }) => `/v1/codeq/admin/jobs/${job}`,
    ok: 200,
    foreign: [404, "there is no such bulk job"],
  },
  "POST /v1/codeq/admin/jobs/:id/pause": {
    access: "admin",
    path: ({ job }) => `/v1/codeq/admin/jobs/${job}/pause`,
    ok: 200,
    foreign: [404, "there is no such bulk job"],
  },
  "POST /v1/codeq/admin/jobs/:id/resume": {
    access: "admin",
    path: ({ job }) => `/v1/codeq/admin/jobs/${job}/resume`,
    ok: 200,
    foreign: [404, "there is no such bulk job"],
  },
  "POST /v1/codeq/admin/jobs/:id/abort": {
    access: "admin",
    path: ({ job }) => `/v1/codeq/admin/jobs/${job}/abort`,
    ok: 200,
    foreign: [404, "there is no such bulk job"],
  },
  "POST /v1/codeq/admin/backups": {
    access: "operator",
    showsPayloads: true,
    path: () => "/v1/codeq/admin/backups",
    body: () => ({ name: "daily" }),
    ok: 201,
    foreign: 201,
  },
  "POST /v1/codeq/admin/cluster/handoff": {
    access: "operator",
    path: () => "/v1/codeq/admin/cluster/handoff",
    body: () => ({}),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/cluster/end": {
    access: "operator",
    path: () => "/v1/codeq/admin/cluster/end",
    body: () => ({ confirm: true }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/cluster/add": {
    access: "operator",
    path: () => "/v1/codeq/admin/cluster/add",
    body: () => ({ node: "d=127.0.0.1:7000" }),
    ok: 409,
    foreign: 409,
  },
  "POST /v1/codeq/admin/cluster/remove": {
    access: "operator",
    path: () => "/v1/codeq/admin/cluster/remove",
    body: () => ({ node: "c" }),
    ok: 409,
    foreign: 409,
  },
  "POST /v1/codeq/admin/cluster/repair": {
    access: "operator",
    path: () => "/v1/codeq/admin/cluster/repair",
    body: () => ({}),
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/backup": {
    access: "operator",
    showsPayloads: true,
    path: () => "/v1/codeq/admin/backup",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/series": {
    access: "viewer",
    path: () => "/v1/codeq/admin/series",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/trends": {
    access: "viewer",
    path: () => "/v1/codeq/admin/trends?queues=print",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/tasks/cleanup": {
    access: "admin",
    path: () => "/v1/codeq/admin/tasks/cleanup",
    body: () => ({ before: "2030-01-01T00:00:00Z" }),
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/tenants": {
    access: "operator",
    path: () => "/v1/codeq/admin/tenants",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/settings": {
    access: "operator",
    path: () => "/v1/codeq/admin/settings",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/keys": {
    access: "admin",
    path: () => "/v1/codeq/admin/keys",
    body: () => ({ name: "ci", role: "admin" }),
    ok: 201,
    foreign: 201,
  },
  "GET /v1/codeq/admin/keys": {
    access: "admin",
    path: () => "/v1/codeq/admin/keys",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/keys/:id": {
    access: "admin",
    path: ({ apiKey }) => `/v1/codeq/admin/keys/${apiKey}`,
    ok: 200,
    foreign: [404, "API key not found"],
  },
  "GET /v1/codeq/admin/audit": {
    access: "admin",
    path: () => "/v1/codeq/admin/audit",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/events": {
    access: "viewer",
    path: () => "/v1/codeq/admin/events",
    ok: 200,
    foreign: 200,
    isEndless: true,
  },
  "GET /v1/codeq/cluster": {
    access: "viewer",
    path: () => "/v1/codeq/cluster",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/raft/status": {
    access: "either",
    path: () => "/v1/codeq/raft/status",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/workers": {
    access: "viewer",
    path: () => "/v1/codeq/admin/workers",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/tasks": {
    access: "viewer",
    path: () => "/v1/codeq/admin/tasks",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/tasks/:id": {
    access: "viewer",
    path: ({ dead }) => `/v1/codeq/admin/tasks/${dead}`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "POST /v1/codeq/admin/tasks/:id/replay": {
    access: "admin",
    path: ({ dead }) => `/v1/codeq/admin/tasks/${dead}/replay`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "DELETE /v1/codeq/admin/tasks/:id": {
    access: "admin",
    path: ({ dead }) => `/v1/codeq/admin/tasks/${dead}`,
    ok: 204,
    foreign: [404, "not found"],
  },
  "POST /v1/codeq/admin/dead-letters/replay": {
    access: "admin",
    path: () => "/v1/codeq/admin/dead-letters/replay",
    body: () => ({ all: true }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/dead-letters/delete": {
    access: "admin",
    path: () => "/v1/codeq/admin/dead-letters/delete",
    body: () => ({ all: true }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/queues/:command/pause": {
    access: "admin",
    path: () => "/v1/codeq/admin/queues/print/pause",
    body: () => ({ reason: "a reason" }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/queues/:command/resume": {
    access: "admin",
    path: () => "/v1/codeq/admin/queues/print/resume",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/pauses": {
    access: "viewer",
    path: () => "/v1/codeq/admin/pauses",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/tasks/:id/cancel": {
    access: "producer",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/cancel`,
    readsTask: true,
    ok: 200,
    foreign: [404, "not found"],
  },
  "POST /v1/codeq/admin/tasks/:id/cancel": {
    access: "admin",
    path: ({ leased }) => `/v1/codeq/admin/tasks/${leased}/cancel`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "PATCH /v1/codeq/admin/tasks/:id": {
    access: "admin",
    path: ({ waiting }) => `/v1/codeq/admin/tasks/${waiting}`,
    body: () => ({ priority: 9 }),
    ok: 200,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/admin/tasks/:id/deliveries": {
    access: "viewer",
    path: ({ done }) => `/v1/codeq/admin/tasks/${done}/deliveries`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "POST /v1/codeq/admin/tasks/:id/redeliver": {
    access: "admin",
    path: ({ done }) => `/v1/codeq/admin/tasks/${done}/redeliver`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/admin/webhooks/failed": {
    access: "viewer",
    path: () => "/v1/codeq/admin/webhooks/failed",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/webhooks/redeliver": {
    access: "admin",
    path: () => "/v1/codeq/admin/webhooks/redeliver",
    body: () => ({ since: "2020-01-01T00:00:00Z" }),
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/webhooks/endpoints": {
    access: "viewer",
    path: () => "/v1/codeq/admin/webhooks/endpoints",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/webhooks/endpoints/enable": {
    access: "admin",
    path: () => "/v1/codeq/admin/webhooks/endpoints/enable",
    body: ({ endpoint }) => ({ url: endpoint }),
    ok: 200,
    foreign: [404, "no webhook to this endpoint has failed"],
  },
  "GET /v1/codeq/admin/webhooks/secrets": {
    access: "admin",
    path: () => "/v1/codeq/admin/webhooks/secrets",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/webhooks/secrets": {
    access: "admin",
    path: () => "/v1/codeq/admin/webhooks/secrets",
    ok: 201,
    foreign: 201,
  },
  "DELETE /v1/codeq/admin/webhooks/secrets/:id": {
    access: "admin",
    path: ({ webhookSecret }) => `/v1/codeq/admin/webhooks/secrets/${webhookSecret}`,
    ok: 204,
    foreign: [404, "secret not found or expired"],
  },
  "PUT /v1/codeq/admin/topics/:topicName": {
    access: "admin",
    path: () => "/v1/codeq/admin/topics/print",
    body: () => ({ priorityTiers: [0], maxAttempts: 2 }),
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/topics/:topicName": {
    access: "viewer",
    path: () => "/v1/codeq/admin/topics/render",
    ok: 200,
    foreign: 404,
  },
  "GET /v1/codeq/admin/topics": {
    access: "viewer",
    path: () => "/v1/codeq/admin/topics",
    ok: 200,
    foreign: 200,
  },
  "DELETE /v1/codeq/admin/topics/:topicName": {
    access: "admin",
    path: () => "/v1/codeq/admin/topics/render?deletionPolicy=Delete",
    ok: 204,
    foreign: 204,
  },
  "GET /v1/codeq/admin/topics/:topicName/lanes": {
    access: "viewer",
    path: () => "/v1/codeq/admin/topics/render/lanes",
    ok: 200,
    foreign: 200,
  },
  "PUT /v1/codeq/admin/topics/:topicName/lanes/:lane": {
    access: "admin",
    path: () => "/v1/codeq/admin/topics/render/lanes/ada",
    body: () => ({ concurrency: 2 }),
    ok: 200,
    foreign: 200,
  },
  "DELETE /v1/codeq/admin/topics/:topicName/lanes/:lane": {
    access: "admin",
    path: () => "/v1/codeq/admin/topics/render/lanes/ada",
    ok: 204,
    foreign: 204,
  },
  "POST /v1/codeq/admin/topics/:topicName/lanes/:lane/pause": {
    access: "admin",
    path: () => "/v1/codeq/admin/topics/render/lanes/ada/pause",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/topics/:topicName/lanes/:lane/resume": {
    access: "admin",
    path: () => "/v1/codeq/admin/topics/render/lanes/ada/resume",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/tasks/by-key/:key": {
    access: "either",
    path: () => "/v1/codeq/tasks/by-key/classified-key",
    ok: 200,
    foreign: [404, "not found"],
  },
  "PUT /v1/codeq/admin/schedules/:id": {
    access: "admin",
    path: () => "/v1/codeq/admin/schedules/print",
    body: () => ({ ...yearly, command: "print", payload: "print" }),
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/schedules": {
    access: "viewer",
    path: () => "/v1/codeq/admin/schedules",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/schedules/preview": {
    access: "viewer",
    path: () => "/v1/codeq/admin/schedules/preview",
    body: () => yearly,
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/schedules/:id": {
    access: "viewer",
    path: () => "/v1/codeq/admin/schedules/render",
    ok: 200,
    foreign: noSchedule,
  },
  "GET /v1/codeq/admin/schedules/:id/runs": {
    access: "viewer",
    path: () => "/v1/codeq/admin/schedules/render/runs",
    ok: 200,
    foreign: noSchedule,
  },
  "GET /v1/codeq/admin/schedules/:id/explain": {
    access: "viewer",
    path: () => "/v1/codeq/admin/schedules/render/explain?at=2026-01-02T03:04:05Z",
    ok: 200,
    foreign: noSchedule,
  },
  "POST /v1/codeq/admin/schedules/:id/pause": {
    access: "admin",
    path: () => "/v1/codeq/admin/schedules/render/pause",
    ok: 200,
    foreign: noSchedule,
  },
  "POST /v1/codeq/admin/schedules/:id/resume": {
    access: "admin",
    path: () => "/v1/codeq/admin/schedules/render/resume",
    ok: 200,
    foreign: noSchedule,
  },
  "POST /v1/codeq/admin/schedules/:id/run": {
    access: "admin",
    path: () => "/v1/codeq/admin/schedules/render/run",
    ok: 201,
    foreign: noSchedule,
  },
  "POST /v1/codeq/admin/schedules/:id/backfill": {
    access: "admin",
    path: () => "/v1/codeq/admin/schedules/render/backfill",
    body: () => ({ from: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z", dryRun: true }),
    ok: 200,
    foreign: noSchedule,
  },
  "DELETE /v1/codeq/admin/schedules/:id": {
    access: "admin",
    path: () => "/v1/codeq/admin/schedules/render",
    ok: 204,
    foreign: noSchedule,
  },
  "PUT /v1/codeq/batches/:id": {
    access: "producer",
    path: () => "/v1/codeq/batches/print",
    body: () => ({ command: "new", payload: "new" }),
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/batches/:id": {
    access: "either",
    path: () => "/v1/codeq/batches/nightly",
    ok: 200,
    foreign: noBatch,
  },
  "POST /v1/codeq/batches/:id/seal": {
    access: "producer",
    path: () => "/v1/codeq/batches/nightly/seal",
    readsTask: true,
    ok: 200,
    foreign: noBatch,
  },
  "POST /v1/codeq/batches/:id/cancel": {
    access: "producer",
    path: () => "/v1/codeq/batches/nightly/cancel",
    readsTask: true,
    ok: 200,
    foreign: noBatch,
  },
  "GET /v1/codeq/batches/:id/results": {
    access: "either",
    path: () => "/v1/codeq/batches/nightly/results",
    ok: 200,
    foreign: noBatch,
    showsPayloads: true,
  },
  "GET /v1/codeq/admin/batches": {
    access: "viewer",
    path: () => "/v1/codeq/admin/batches",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/batches/:id": {
    access: "viewer",
    path: () => "/v1/codeq/admin/batches/nightly",
    ok: 200,
    foreign: noBatch,
  },
  "POST /v1/codeq/admin/batches/:id/seal": {
    access: "admin",
    path: () => "/v1/codeq/admin/batches/nightly/seal",
    ok: 200,
    foreign: noBatch,
  },
  "POST /v1/codeq/admin/batches/:id/cancel": {
    access: "admin",
    path: () => "/v1/codeq/admin/batches/nightly/cancel",
    ok: 200,
    foreign: noBatch,
  },
  "POST /v1/codeq/workers/subscriptions": {
    access: "worker",
    path: () => "/v1/codeq/workers/subscriptions",
    body: () => ({ callbackUrl: "https://a.example/", eventTypes: ["print"] }),
    ok: 200,
    foreign: 200,
    otherWork: otherType,
  },
  "POST /v1/codeq/workers/subscriptions/:id/heartbeat": {
    access: "worker",
    path: ({ subscription }) => `/v1/codeq/workers/subscriptions/${subscription}/heartbeat`,
    body: () => ({ ttlSeconds: 5000 }),
    ok: 200,
    foreign: verbForeign,
    otherWork: otherType,
  },
  "GET /v1/codeq/workers/subscriptions": {
    access: "worker",
    path: () => "/v1/codeq/workers/subscriptions",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/workers/subscriptions/:id": {
    access: "worker",
    path: ({ subscription }) => `/v1/codeq/workers/subscriptions/${subscription}`,
    ok: 200,
    foreign: verbForeign,
    otherWork: otherType,
  },
  "DELETE /v1/codeq/workers/subscriptions/:id": {
    access: "worker",
    path: ({ subscription }) => `/v1/codeq/workers/subscriptions/${subscription}`,
    ok: 204,
    foreign: verbForeign,
    otherWork: otherType,
  },
  "GET /v1/codeq/admin/subscriptions": {
    access: "viewer",
    path: () => "/v1/codeq/admin/subscriptions",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/subscriptions": {
    access: "admin",
    path: () => "/v1/codeq/admin/subscriptions",
    body: () => ({ callbackUrl: "https://a.example/", eventTypes: ["print"] }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/subscriptions/:id/heartbeat": {
    access: "admin",
    path: ({ subscription }) => `/v1/codeq/admin/subscriptions/${subscription}/heartbeat`,
    body: () => ({ ttlSeconds: 5000 }),
    ok: 200,
    foreign: verbForeign,
  },
  "GET /v1/codeq/admin/subscriptions/:id": {
    access: "viewer",
    path: ({ subscription }) => `/v1/codeq/admin/subscriptions/${subscription}`,
    ok: 200,
    foreign: verbForeign,
  },
  "DELETE /v1/codeq/admin/subscriptions/:id": {
    access: "admin",
    path: ({ subscription }) => `/v1/codeq/admin/subscriptions/${subscription}`,
    ok: 204,
    foreign: verbForeign,
  },
  "PUT /v1/codeq/tasks/:id/artifacts/:name": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/artifacts/a.txt`,
    body: () => "a file",
    ok: 201,
    foreign: verbForeign,
    otherWork: notOwner,
  },
  "GET /v1/codeq/tasks/:id/artifacts/:name": {
    access: "either",
    showsPayloads: true,
    path: ({ done }) => `/v1/codeq/tasks/${done}/artifacts/a.txt`,
    ok: 200,
    foreign: [404, "task not found"],
  },
  "GET /v1/codeq/tasks/:id/events": {
    access: "either",
    showsPayloads: true,
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/events`,
    ok: 200,
    foreign: [404, "not found"],
    isEndless: true,
  },
  "POST /v1/codeq/tasks/:id/public-token": {
    access: "either",
    showsPayloads: true,
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/public-token`,
    ok: 201,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/tasks/:id/explain": {
    access: "either",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/explain`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/admin/tasks/:id/explain": {
    access: "viewer",
    path: ({ leased }) => `/v1/codeq/admin/tasks/${leased}/explain`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/admin/tasks/:id/artifacts/:name": {
    access: "viewer",
    showsPayloads: true,
    path: ({ done }) => `/v1/codeq/admin/tasks/${done}/artifacts/a.txt`,
    ok: 200,
    foreign: [404, "task not found"],
  },
  "GET /v1/codeq/admin/workers/:workerId/explain": {
    access: "viewer",
    path: () => "/v1/codeq/admin/workers/worker-1/explain",
    ok: 200,
    foreign: [404, "worker not found: it holds no lease, and has no stream and no waiting claim"],
  },
  "DELETE /v1/codeq/admin/keys/:id": {
    access: "admin",
    path: ({ apiKey }) => `/v1/codeq/admin/keys/${apiKey}`,
    ok: 204,
    foreign: [404, "API key not found"],
  },
};

const badHeaders: readonly (readonly [string, Refused])[] = [
  ["", [401, "missing Authorization header"]],
  ["Bearer", [401, "invalid Authorization format"]],
  ["Bearer   ", [401, "invalid Authorization format"]],
  ["Basic d29ya2VyOng=", [401, "invalid Authorization format"]],
  ["producer-acme", [401, "invalid Authorization format"]],
  ["Bearer producer-acme,worker-acme", [401, "invalid token"]],
  ["Bearer PRODUCER-ACME", [401, "invalid token"]],
];

/** What a caller may add in the hope that somebody believes it. */
const claimsOfTheRequest: readonly Readonly<Record<string, string>>[] = [
  {},
  { "x-role": "ADMIN" },
  { "x-role": "admin", "x-tenant": "acme", "x-tenant-id": "acme" },
];

/** A tenant with a task in every place, one of them held by `worker-acme`. */
async function populated(t: TestContext): Promise<[RunningServer, Ids]> {
  const endpoint = "http://gone.example/hook";
  const post = async ({ webhook }: { readonly webhook: string }): Promise<number> =>
    webhook === endpoint ? 410 : 200;
  const backupDir = await mkdtemp(join(tmpdir(), "codeq-access-"));
  t.after(() => rm(backupDir, { recursive: true, force: true }));
  const server = await setup(t, {
    ...accessOptions,
    settings: { ...accessOptions.settings, backupDir },
    post,
    artifacts: new MemoryArtifacts(),
  });
  await server.complete(await server.leased({ webhook: endpoint }));
  const webhook = "http://fine.example/hook";
  const done = await server.leased({ payload: { classified: "of acme" }, webhook });
  const file = { method: "PUT", caller: "worker-acme", body: "classified" } as const;
  await server.ask(`/v1/codeq/tasks/${done}/artifacts/a.txt`, file);
  await server.complete(done);
  await until(async () => {
    await server.clock.advance(1);
    const log = await server.get(`/admin/tasks/${done}/deliveries`, "admin-acme");
    const endpoints = await server.get("/admin/webhooks/endpoints", "admin-acme");
    return log.json.state === "delivered" && endpoints.json.endpoints.length === 1;
  });
  const dead = await server.buried();
  const waiting = await server.create({ command: "later", delaySeconds: 60, idempotencyKey: "k" });
  const leased = await server.leased({ payload: { classified: "of acme" } });
  await server.create({ command: "print" });
  const key = { name: "classified of acme", scopes: ["codeq:create"] };
  const bulk = { action: "delete", command: "never" };
  const job = (await server.post("/admin/jobs", bulk, "admin-acme")).json.id;
  await server.post(`/admin/jobs/${job}/pause`, undefined, "admin-acme");
  const apiKey = (await server.post("/admin/keys", key, "admin-acme")).json.id;
  const rotated = await server.post("/admin/webhooks/secrets", undefined, "admin-acme");
  const webhookSecret = rotated.json.id;
  const wanted = { callbackUrl: "https://a.example/classified", eventTypes: ["print"] };
  const subscribed = await server.post("/workers/subscriptions", wanted, "worker-acme");
  const subscription = subscribed.json.subscriptionId;
  await putTopic(server, "render", "admin-acme");
  await putSchedule(server, "render", "admin-acme");
  await server.create({ command: "keyed", idempotencyKey: "classified-key" });
  const callback = { command: "new", payload: "classified" };
  const put = { method: "PUT", caller: "producer-acme", body: callback } as const;
  assert.equal((await server.ask("/v1/codeq/batches/nightly", put)).status, 201);
  for (const owner of ["producer-acme", "producer-globex", "operator"] as const) {
    const same = {
      method: "PUT",
      caller: owner,
      body: { command: "new", payload: "new" },
    } as const;
    await server.ask("/v1/codeq/batches/print", same);
  }
  await server.create({ command: "never", batchId: "nightly", payload: "classified" });
  // Everybody has this one, so that nobody's is new.
  for (const admin of ["admin-acme", "admin-globex", "operator"] as const) {
    await putSchedule(server, "print", admin);
    await putTopic(server, "print", admin);
  }
  const named = { apiKey, job, endpoint, webhookSecret, subscription };
  return [server, { leased, done, dead, waiting, ...named }];
}

async function putTopic(server: RunningServer, name: string, caller: Caller): Promise<void> {
  const body = { priorityTiers: [0, 9], maxAttempts: 5 };
  await server.ask(`/v1/codeq/admin/topics/${name}`, { method: "PUT", caller, body });
}

async function putSchedule(server: RunningServer, id: string, caller: Caller): Promise<void> {
  // Only one of them has something to hide.
  const body = { ...yearly, command: id, payload: id === "render" ? "classified" : id };
  const path = `/v1/codeq/admin/schedules/${id}`;
  const reply = await server.ask(path, { method: "PUT", caller, body });
  assert.equal(reply.status, 201, reply.text);
}

/** A task may have an error, too. */
const refusalPattern = /^\{("results":\[\{)?("taskId":"[^"]*",)?"error"/;

interface Who {
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
}

async function ask(server: RunningServer, route: string, ids: Ids, who: Who): Promise<Reply> {
  const row = table[route] as Row;
  const method = route.slice(0, route.indexOf(" "));
  const body = row.body === undefined ? {} : { body: row.body(ids) };
  const authorization = who.token === undefined ? {} : { authorization: `Bearer ${who.token}` };
  const headers = { ...authorization, ...who.headers };
  const own = row.path(ids);
  const query = who.query ?? "";
  const path = own.includes("?") ? own + query.replace("?", "&") : own + query;
  const request = { method, ...body, headers };
  return row.isEndless === true ? server.askToEnd(path, request) : server.ask(path, request);
}

function assertRefused(reply: Reply, [status, error]: Refused, why: string): void {
  // A batch tells of its items inside a 200.
  if (reply.status === 200 && reply.text.startsWith('{"results":')) {
    assert.deepEqual(reply.json.results[0].error, error, why);
    return;
  }
  assert.equal(reply.status, status, `${why}: ${reply.text}`);
  assert.equal(reply.text, JSON.stringify({ error }), why);
}

/** Runs the call and makes sure that not one byte of the store is different afterwards. */
async function untouched(
  server: RunningServer,
  why: string,
  call: () => Promise<Reply>,
): Promise<Reply> {
  const before = await server.fingerprint();
  const reply = await call();
  assert.equal(await server.fingerprint(), before, `${why} changed the store`);
  assert.equal(reply.text.includes("classified"), false, `${why} showed a payload`);
  return reply;
}

/** Counts how often the store is asked while the call runs. */
async function readsDuring(server: RunningServer, call: () => Promise<unknown>): Promise<number> {
  let reads = 0;
  const stop = watchReads(server.core.store, () => {
    reads += 1;
  });
  await call();
  stop();
  return reads;
}

/** The refusal that the token alone decides on, if it does. */
function refusalOf(expected: Expected, token: string | undefined): Refused | undefined {
  if (expected === "other kind") return refusedKind(token);
  return typeof expected === "string" ? undefined : expected;
}

function named(route: string, column: string, token: string | undefined): string {
  return `${route} by ${column} (${token?.slice(0, 20) ?? "nothing"})`;
}

test("every route has a row in the table of access, and every row has a route", () => {
  const known = routes.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(known.toSorted(), Object.keys(table).toSorted());
});

for (const [route, row] of Object.entries(table)) {
  test(`${route} refuses those who may not, reads nothing and changes nothing`, async (t) => {
    const [server, ids] = await populated(t);
    const assertCall = async (
      given: { readonly token?: string | undefined; readonly headers: Record<string, string> },
      { refused, why }: { readonly refused: Refused; readonly why: string },
    ): Promise<void> => {
      const reads = await readsDuring(server, async () => {
        const reply = await ask(server, route, ids, given);
        assertRefused(reply, refused, why);
        assert.equal(reply.text.includes("classified"), false, `${why} showed a payload`);
      });
      // The command is in the body, which is only looked at when the token is good.
      const mayRead = row.readsTask === true && refused[1] === "event type not allowed";
      if (!mayRead) assert.equal(reads, 0, `${why} read the store`);
    };
    const before = await server.fingerprint();
    for (const [column, { tokens, expected }] of Object.entries(columns)) {
      for (const token of tokens) {
        const refused = refusalOf(expected[row.access], token);
        if (refused === undefined) continue;
        const why = named(route, column, token);
        for (const headers of claimsOfTheRequest) {
          await assertCall({ token, headers }, { refused, why });
        }
      }
    }
    for (const [authorization, refused] of badHeaders) {
      await assertCall({ headers: { authorization } }, { refused, why: authorization });
    }
    assert.equal(await server.fingerprint(), before, `${route} changed the store`);
  });

  test(`${route} lets those in who may`, async (t) => {
    let [server, ids] = await populated(t);
    let isFresh = true;
    for (const [column, { tokens, expected }] of Object.entries(columns)) {
      for (const token of tokens) {
        if (expected[row.access] !== "ok") continue;
        // What one of them has read is there for the next.
        if (!isFresh && !route.startsWith("GET ")) [server, ids] = await populated(t);
        isFresh = false;
        const reply = await ask(server, route, ids, { token });
        assert.equal(reply.status, row.ok, `${named(route, column, token)}: ${reply.text}`);
        if (row.ok < 400) assert.equal(refusalPattern.test(reply.text), false, reply.text);
      }
    }
  });

  test(`${route} shows and changes nothing of another tenant`, async (t) => {
    const [server, ids] = await populated(t);
    for (const [column, { tokens, expected }] of Object.entries(columns)) {
      for (const token of tokens) {
        if (expected[row.access] !== "foreign") continue;
        await assertApart(server, ids, { route, why: named(route, column, token), token });
      }
    }
  });
}

async function assertApart(
  server: RunningServer,
  ids: Ids,
  { route, why, token }: { route: string; why: string; token: string | undefined },
): Promise<void> {
  const { foreign } = table[route] as Row;
  const acmes = async () => new Map([...(await server.dump())].filter(([key]) => ofAcme(key, ids)));
  const before = await acmes();
  const lease = await server.task(ids.leased);
  const reply = await ask(server, route, ids, { token });
  if (typeof foreign === "number") assert.equal(reply.status, foreign, why);
  else assertRefused(reply, foreign, why);
  assert.equal(reply.text.includes("classified") || reply.text.includes("acme"), false, reply.text);
  assert.deepEqual(await acmes(), before, `${why} changed another tenant`);
  // Heartbeats are answered from memory, which the store does not show.
  assert.deepEqual(await server.task(ids.leased), lease);
}

/** Keys that the other tenant's own work cannot make: all but its new tasks. */
function ofAcme(key: string, ids: Ids): boolean {
  return ["/acme/", ids.leased, ids.done, ids.dead, ids.apiKey].some((part) => key.includes(part));
}

for (const [route, { otherWork }] of Object.entries(table)) {
  if (otherWork === undefined) continue;
  test(`${route} by a worker of other tasks and event types changes nothing`, async (t) => {
    const [server, ids] = await populated(t);
    for (const [column, { tokens, expected }] of Object.entries(columns)) {
      for (const token of tokens) {
        if (expected.worker !== "other work") continue;
        const why = named(route, column, token);
        const lease = await server.task(ids.leased);
        const call = () => ask(server, route, ids, { token });
        assertRefused(await untouched(server, why, call), otherWork, why);
        assert.deepEqual(await server.task(ids.leased), lease);
      }
    }
  });
}

for (const [route, row] of Object.entries(table)) {
  if (row.access !== "admin" && row.access !== "viewer") continue;
  test(`${route} is of the tenant that an operator names, and of no other admin's`, async (t) => {
    const [server, ids] = await populated(t);
    const query = "?tenant=acme";
    const denied: Refused = [403, "only operators may select another tenant"];
    for (const token of columns["admin of another tenant"]?.tokens ?? []) {
      const call = () => ask(server, route, ids, { token, query });
      assertRefused(await untouched(server, route, call), denied, route);
      assert.equal(await readsDuring(server, call), 0);
    }
    const own = await ask(server, route, ids, { token: "admin-acme", query });
    for (const token of columns["operator"]?.tokens ?? []) {
      const [fresh, freshIds] = await populated(t);
      const reply = await ask(fresh, route, freshIds, { token, query });
      assert.deepEqual([reply.status, unsigned(reply)], [own.status, unsigned(own)]);
      for (const bad of [
        "?tenant=ACME",
        "?tenant=",
        "?tenant=acme&tenant=globex",
        "?tenant=a%2Fb",
      ]) {
        const refused = await ask(fresh, route, freshIds, { token, query: bad });
        assertRefused(refused, [400, "invalid 'tenant'"], bad);
      }
    }
  });
}

/** What was answered but for who made it and in which request. */
function unsigned({ text }: Reply): string {
  return text.replaceAll(/"(createdBy|requestId|by)":"\w+"/g, "");
}

test("the scheme of the header is compared without case", async (t) => {
  const [server, ids] = await populated(t);
  const route = "GET /v1/codeq/tasks/:id";
  const headers = { authorization: "bEaReR  producer-acme" };
  assert.equal((await ask(server, route, ids, { headers })).status, 200);
});

test("a producer may work when the configuration says so, as itself and in its tenant", async (t) => {
  const server = await setup(t, { settings: { allowProducerAsWorker: true } });
  const id = await server.create();
  assert.equal(await server.claim({}, "producer-globex"), undefined);
  const task = await server.claim({}, "producer-acme");
  assert.equal(task.id, id);
  assert.equal(task.workerId, "shop");
  assert.equal((await server.complete(id, "producer-acme")).status, 200);
  assert.equal((await server.post("/tasks/claim", {}, "producer-upper-tenant")).status, 403);
});

test("a token is refused from the second it expires", async (t) => {
  const exp = startMs / 1000 + 1;
  const token = { token: "short-lived", subject: "shop", email: "", scopes: [], eventTypes: [] };
  const server = await setup(t, {
    settings: {
      producerAuth: [{ type: "static", tokens: [{ ...token, raw: { tenantId: "acme", exp } }] }],
    },
  });
  const ask = () =>
    server.ask("/v1/codeq/tasks/x", { headers: { authorization: "Bearer short-lived" } });
  assert.equal((await ask()).status, 404);
  await server.clock.advance(1000);
  assert.equal((await ask()).status, 401);
  assert.equal((await ask()).text, '{"error":"token is expired"}');
});

test("S8: a long poll ends with its token: no task, and nothing is lost", async (t) => {
  const issuer = new SimIssuer().addKey("one").addKey("two");
  const [, jwks] = accessOptions.settings?.workerAuth ?? [];
  assert.ok(jwks?.type === "jwks");
  const server = await setup(t, {
    ...accessOptions,
    fetchKeySet: async () => issuer.keySet(),
  });
  const exp = startMs / 1000 + 86_400;
  const claims = { sub: "w", aud: "codeq-worker", exp, tenantId: "acme", eventTypes: ["*"] };
  const token = (kid: string) => issuer.token({ ...claims, scope: "codeq:claim" }, { kid });
  const [one, two] = [token("one"), token("two")];
  const claim = (bearer: string, waitSeconds: number) =>
    server.ask("/v1/codeq/tasks/claim", {
      method: "POST",
      body: { commands: ["render"], waitSeconds },
      headers: { authorization: `Bearer ${bearer}` },
    });
  await server.clock.advance(jwks.refreshMs - 10_000);
  const polls = [claim(one, 30), claim(one, 30)];
  const other = claim(two, 30);
  await server.untilWaiting(3);
  issuer.removeKey("one");
  await server.clock.advance(10_000);
  for (const poll of polls) {
    const { status, text } = await poll;
    assert.deepEqual([status, text], [401, '{"error":"token was revoked"}']);
  }
  await server.untilWaiting(1);
  const id = await server.create();
  assert.equal((await other).json.id, id);
  assert.equal((await claim(one, 0)).text, '{"error":"invalid token"}');
});

test("S2: what the request says of its role counts in development only, and only when that is allowed", async (t) => {
  const headers = { "x-role": "ADMIN" };
  const admin = (server: RunningServer, caller: Caller, more: Record<string, string> = headers) =>
    server.ask("/v1/codeq/admin/queues", { caller, headers: more });
  const usual = await setup(t);
  assert.equal((await admin(usual, "producer-acme")).status, 401);
  const lenient = await setup(t, { settings: { allowRoleHeader: true } });
  await lenient.create({}, "producer-globex");
  assert.equal((await admin(lenient, "producer-acme")).text, "{}");
  assert.equal((await admin(lenient, "producer-acme", { "x-role": "admin" })).status, 200);
  assert.equal((await admin(lenient, "producer-acme", {})).status, 401);
  for (const role of ["OPERATOR", "user", "", "ADMIN,ADMIN"]) {
    assert.equal((await admin(lenient, "producer-acme", { "x-role": role })).status, 401, role);
  }
  assert.equal((await admin(lenient, "worker-acme")).status, 401);
  const named = await lenient.ask("/v1/codeq/admin/queues?tenant=globex", {
    caller: "producer-acme",
    headers,
  });
  assert.equal(named.status, 403);
  // A token that has a role keeps it.
  const user = { token: "user", subject: "acme", email: "", scopes: [], eventTypes: [] };
  const tokens = [{ ...user, raw: { role: "user" } }];
  const strict = await setup(t, {
    settings: { allowRoleHeader: true, producerAuth: [{ type: "static", tokens }] },
  });
  assert.equal((await admin(strict, "user" as Caller)).status, 401);
});

test("S3: an operator sees and cleans the tenant it names, and nothing else changes", async (t) => {
  const server = await setup(t);
  for (const caller of ["worker-acme", "worker-globex"] as const) {
    await server.complete(await server.leased({}, caller), caller);
  }
  await server.create({ command: "print" }, "producer-globex");
  const { json: listed } = await server.get("/admin/tenants", "operator");
  assert.deepEqual(listed, { tenants: ["globex"], hasMore: false });
  await server.create({ command: "later", delaySeconds: 9 });
  const { json: both } = await server.get("/admin/tenants", "operator");
  assert.deepEqual(both, { tenants: ["acme", "globex"], hasMore: false });
  assert.deepEqual((await server.get("/admin/tenants?after=acme", "operator")).json, {
    tenants: ["globex"],
    hasMore: false,
  });
  assert.deepEqual((await server.get("/admin/queues?tenant=globex", "operator")).json, {
    "codeq:q:print:globex:pending:0": 1,
  });
  assert.equal((await server.get("/admin/queues", "operator")).text, "{}");
  const body = { before: "2100-01-01T00:00:00Z" };
  const own = await server.post("/admin/tasks/cleanup", body, "operator");
  assert.equal(own.json.deleted, 0);
  const named = await server.post("/admin/tasks/cleanup?tenant=globex", body, "operator");
  assert.equal(named.json.deleted, 1);
  const acmes = await server.post("/admin/tasks/cleanup", body, "admin-acme");
  assert.equal(acmes.json.deleted, 1, "what is left of the other tenant");
  // Only administration crosses tenants: an operator reads and creates where it is at home.
  const id = await server.create();
  const task = { command: "x", payload: 1 };
  assert.equal((await server.get(`/tasks/${id}?tenant=acme`, "operator")).status, 400);
  assert.equal((await server.post("/tasks?tenant=acme", task, "operator")).status, 400);
  assert.equal((await server.get(`/tasks/${id}`, "operator")).status, 404);
  const made = await server.post("/tasks", task, "operator");
  assert.equal(made.json.tenantId, "ops-team");
});

test("tenants are listed page by page", async (t) => {
  const tenants = Array.from({ length: 1001 }, (_, n) => `t${String(n).padStart(4, "0")}`);
  const user = { email: "", scopes: [], eventTypes: [], subject: "shop" };
  const tokens = [
    ...tenants.map((tenantId) => ({ ...user, token: `of-${tenantId}`, raw: { tenantId } })),
    { ...user, token: "operator", raw: { role: "operator" } },
  ];
  const server = await setup(t, { settings: { producerAuth: [{ type: "static", tokens }] } });
  for (const tenant of tenants) await server.create({}, `of-${tenant}` as Caller);
  const first = (await server.get("/admin/tenants", "operator")).json;
  assert.deepEqual(first, { tenants: tenants.slice(0, 1000), hasMore: true });
  const next = (await server.get("/admin/tenants?after=t0999", "operator")).json;
  assert.deepEqual(next, { tenants: ["t1000"], hasMore: false });
});

test("S13: a producer creates its own commands, in any case, one by one in a batch", async (t) => {
  const server = await setup(t);
  const before = await server.fingerprint();
  const denied = await server.post("/tasks", { command: "render", payload: 1 }, "producer-prints");
  assert.deepEqual([denied.status, denied.text], [403, '{"error":"event type not allowed"}']);
  assert.equal(await server.fingerprint(), before);
  await server.create({ command: "PRINT" }, "producer-prints");
  const tasks = ["print", "render", "Print"].map((command) => ({ command, payload: 1 }));
  const { json } = await server.post("/tasks/batch", { tasks }, "producer-prints");
  const errors = json.results.map(({ error }: { error?: string }) => error);
  assert.deepEqual(errors, [undefined, "event type not allowed", undefined]);
  assert.equal((await server.stats("print")).ready, 3);
  assert.equal((await server.stats("render")).ready, 0);
});

test("payloads and results are hidden from those whose token says so, on every route", async (t) => {
  const [server, ids] = await populated(t);
  const order = Object.keys(table).toSorted((one, other) => rankOf(one) - rankOf(other));
  for (const token of hiddenTokens) {
    const { text, json } = await server.get(`/admin/tasks/${ids.done}`, token as Caller);
    assert.equal(json.result.status, "COMPLETED");
    assert.doesNotMatch(text, /classified\\?":|a\.txt/, "it showed a result");
  }
  for (const token of hiddenTokens) {
    for (const route of order) {
      const reply = await ask(server, route, ids, { token });
      assert.doesNotMatch(reply.text, /classified\\?":/, `${route} by ${token} showed a payload`);
      if (table[route]?.showsPayloads !== true || reply.status === 401) continue;
      const refused = [errors.payloads_hidden.text, errors.operator_only.text];
      assert.equal(reply.status, 403, `${route}: ${reply.text}`);
      assert.ok(refused.includes(reply.json.error), `${route}: ${reply.text}`);
    }
  }
});

test("an operator who sees no payloads gets no backup either", async (t) => {
  const server = await setup(t, accessOptions);
  const operator = blindOperator as Caller;
  assert.equal((await server.get("/admin/tenants", operator)).status, 200);
  const replies = [
    await server.get("/admin/backup", operator),
    await server.post("/admin/backups", { name: "daily" }, operator),
  ];
  for (const { status, headers, json } of replies) {
    assert.deepEqual([status, headers["codeq-error"]], [403, "payloads_hidden"]);
    assert.equal(json.error, errors.payloads_hidden.text);
  }
});

/** What only looks comes first, and what deletes the tasks last. */
function rankOf(route: string): number {
  if (route.startsWith("GET")) return 0;
  return /^DELETE|delete$|cleanup$/.test(route) ? 2 : 1;
}

test("stacks of workers are cut, and hidden with payloads", async (t) => {
  const server = await setup(t, accessOptions);
  const stack = `    at pay (pay.ts:3:7)\n${"x".repeat(5000)}`;
  const retried = await server.leased();
  const reason = "first line\nsecond line";
  const nacked = await server.post(`/tasks/${retried}/nack`, { reason, stack }, "worker-acme");
  assert.equal(nacked.status, 200, nacked.text);
  const failed = await server.leased({ command: "other" });
  const body = { status: "FAILED", error: reason, stack };
  const submitted = await server.post(`/tasks/${failed}/result`, body, "worker-acme");
  assert.equal(submitted.status, 200, submitted.text);
  for (const id of [retried, failed]) {
    const attemptFor = async (caller: Caller) =>
      (await server.get(`/admin/tasks/${id}`, caller)).json.task.attemptHistory[0];
    const shown = await attemptFor("admin-acme");
    assert.deepEqual([shown.error, shown.stack], [reason, stack.slice(0, limits.stackCharsMax)]);
    const hidden = await attemptFor("admin-blind");
    assert.deepEqual([hidden.error, hidden.stack], [reason, undefined]);
  }
});

test("payloads cannot be searched by those from whom they are hidden, nor given to others", async (t) => {
  const server = await setup(t, accessOptions);
  const admin: Caller = "admin-blind";
  const { text } = errors.payloads_hidden;
  const search = "payloads are hidden from this token; leave 'payload' away";
  for (const path of ["/admin/tasks", "/admin/failure-groups"]) {
    const reply = await server.get(`${path}?payload=classified:1`, admin);
    assert.deepEqual([reply.status, reply.json.error], [403, search], path);
  }
  for (const path of ["/admin/dead-letters/replay", "/admin/dead-letters/delete"]) {
    const body = { payload: "classified:1", dryRun: true };
    assert.equal((await server.post(path, body, admin)).json.error, search, path);
  }
  const job = { action: "replay", payload: "classified:1", dryRun: true };
  assert.equal((await server.post("/admin/jobs", job, admin)).json.error, search);
  const key = { name: "eyes", role: "admin" };
  const given = "payloads are hidden from you; give the key the scope codeq:payloads-hidden";
  assert.equal((await server.post("/admin/keys", key, admin)).json.error, given);
  const blind = { ...key, scopes: ["codeq:payloads-hidden", "codeq:claim"] };
  const { token } = (await server.post("/admin/keys", blind, admin)).json;
  const claimed = await server.post("/tasks/claim", {}, token);
  assert.deepEqual([claimed.status, claimed.json.error], [403, text]);
});

test("a token that hides payloads cannot learn or guess the payload behind a key", async (t) => {
  const server = await setup(t, accessOptions);
  const blind = "admin-blind" as Caller;
  const secret = { command: "new", payload: { classified: 7 } };
  const keyed = { ...secret, idempotencyKey: "k" };
  const unique = { ...secret, unique: { key: "u" } };
  for (const body of [keyed, unique]) {
    assert.equal((await server.post("/tasks", body, "admin-acme")).status, 202);
  }
  const asked = async (body: object): Promise<unknown[]> => {
    const { status, json } = await server.post("/tasks", body, blind);
    return [status, json.id, json.payload];
  };
  const right = await asked(keyed);
  assert.deepEqual(await asked({ ...keyed, payload: { classified: 8 } }), right);
  const deduplicated = await asked({ ...unique, payload: 1 });
  for (const [status, , payload] of [right, deduplicated]) {
    assert.deepEqual([status, payload], [202, "null"]);
  }
});

test("tokens without a tenant meet in the shared one, and nowhere by default", async (t) => {
  const token = (name: string, more: object) => ({
    ...{ token: name, subject: name, email: "", scopes: [], eventTypes: [], raw: {}, ...more },
  });
  const all = { scopes: ["codeq:claim"], eventTypes: ["*"] };
  const settings = {
    producerAuth: [{ type: "static", tokens: [token("auth0|shop", {})] }],
    workerAuth: [{ type: "static", tokens: [token("robot@shop.example", all)] }],
  } as unknown as Partial<Config>;
  const [producer, worker] = ["auth0|shop", "robot@shop.example"] as unknown as [Caller, Caller];
  for (const [tenantFallback, isMet] of [
    ["subject", false],
    ["shared", true],
  ] as const) {
    const server = await setup(t, { settings: { ...settings, tenantFallback } });
    const id = await server.create({}, producer);
    const { tenantId } = await server.task(id, producer);
    assert.match(tenantId, isMet ? /^shared$/ : /^subject-[0-9a-f]{40}$/);
    assert.equal((await server.claim({}, worker))?.id, isMet ? id : undefined);
  }
});
