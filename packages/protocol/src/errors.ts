/**
 * Every refusal the server can give, in one table. A code is stable and is what programs branch on;
 * the text is what the wire carries; `http` and `grpc` are the statuses it becomes on each transport.
 * A text of a refusal may be replaced by a more specific one when it is made, the code never.
 */
interface ErrorRow {
  readonly http: number;
  readonly grpc: GrpcStatus;
  /** Whether the same request may succeed later without being changed. */
  readonly retryable: boolean;
  readonly text: string;
}

type GrpcStatus =
  | "INVALID_ARGUMENT"
  | "UNAUTHENTICATED"
  | "PERMISSION_DENIED"
  | "NOT_FOUND"
  | "ABORTED"
  | "ALREADY_EXISTS"
  | "RESOURCE_EXHAUSTED"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS";

const row = (http: number, grpc: GrpcStatus, text: string, retryable = false): ErrorRow => ({
  http,
  grpc,
  retryable,
  text,
});

export const errors = {
  invalid_body: row(400, "INVALID_ARGUMENT", "invalid body"),
  invalid_argument: row(400, "INVALID_ARGUMENT", "invalid argument"),
  invalid_command: row(400, "INVALID_ARGUMENT", "invalid command"),
  body_too_large: row(413, "RESOURCE_EXHAUSTED", "request body is too large"),
  body_too_slow: row(408, "ABORTED", "the request body arrives too slowly", true),
  payload_too_large: row(413, "RESOURCE_EXHAUSTED", "payload is too large"),
  compressed_body: row(
    415,
    "UNIMPLEMENTED",
    "compressed bodies are not accepted; send the body without Content-Encoding",
  ),
  missing_authorization: row(401, "UNAUTHENTICATED", "missing Authorization header"),
  invalid_authorization: row(401, "UNAUTHENTICATED", "invalid Authorization format"),
  invalid_token: row(401, "UNAUTHENTICATED", "invalid token"),
  mistyped_key: row(401, "UNAUTHENTICATED", "the API key is mistyped or incomplete"),
  token_expired: row(401, "UNAUTHENTICATED", "token is expired"),
  token_not_active: row(401, "UNAUTHENTICATED", "token is not valid yet"),
  token_revoked: row(401, "UNAUTHENTICATED", "token was revoked"),
  invalid_issuer: row(401, "UNAUTHENTICATED", "invalid issuer"),
  invalid_audience: row(401, "UNAUTHENTICATED", "invalid audience"),
  invalid_claims: row(401, "UNAUTHENTICATED", "invalid token claims"),
  missing_event_types: row(401, "UNAUTHENTICATED", "missing eventTypes"),
  missing_worker_scope: row(401, "UNAUTHENTICATED", "missing scope"),
  missing_scope: row(403, "PERMISSION_DENIED", "missing scope"),
  event_type_not_allowed: row(403, "PERMISSION_DENIED", "event type not allowed"),
  invalid_tenant: row(403, "PERMISSION_DENIED", "invalid tenant claims"),
  admin_only: row(401, "PERMISSION_DENIED", "unauthorized. Admin only"),
  operator_only: row(403, "PERMISSION_DENIED", "operators only"),
  read_only: row(
    403,
    "PERMISSION_DENIED",
    "this token is read-only (role: viewer); use a token with the role admin",
  ),
  payloads_hidden: row(
    403,
    "PERMISSION_DENIED",
    "payloads and results are hidden from this token; use a token without the scope codeq:payloads-hidden",
  ),
  not_found: row(404, "NOT_FOUND", "not found"),
  task_not_found: row(404, "NOT_FOUND", "task not found"),
  task_unknown: row(404, "NOT_FOUND", "not-found"),
  result_not_found: row(404, "NOT_FOUND", "result not found", true),
  topic_not_found: row(404, "NOT_FOUND", "queue topic not found"),
  schedule_not_found: row(404, "NOT_FOUND", "schedule not found"),
  invalid_schedule: row(422, "INVALID_ARGUMENT", "the schedule is invalid"),
  schedule_busy: row(409, "ABORTED", "a task of the schedule has not ended"),
  version_mismatch: row(412, "ABORTED", "the schedule has another version"),
  batch_not_found: row(
    404,
    "NOT_FOUND",
    "batch not found: create it with PUT /v1/codeq/batches/<id>; a batch is deleted with its callback",
  ),
  batch_exists: row(
    409,
    "ALREADY_EXISTS",
    "a batch with this id and other options exists; choose another id",
  ),
  batch_sealed: row(
    409,
    "ABORTED",
    "the batch takes no more members: it was sealed, was cancelled or has expired; create another batch",
  ),
  batch_full: row(
    409,
    "RESOURCE_EXHAUSTED",
    "the batch has 100000 members, which is the most; put the rest into another batch",
  ),
  batch_over: row(
    409,
    "ABORTED",
    "the callback of the batch was released, failed or cancelled; look at the phase of the batch",
  ),
  batch_unfinished: row(
    409,
    "ABORTED",
    "the task is a member of a batch whose callback has not ended; cancel the batch, or wait for its callback",
  ),
  after_unknown: row(
    404,
    "NOT_FOUND",
    "a task of 'after' does not exist, or was deleted after its retention; leave its id out",
  ),
  after_failed: row(
    409,
    "ABORTED",
    "a task of 'after' is a dead letter, has failed or was cancelled; replay it first, or leave its id out",
  ),
  after_waits: row(
    409,
    "ABORTED",
    "a task of 'after' is held itself; create this task when that one has ended, or in its handler",
  ),
  after_full: row(
    409,
    "RESOURCE_EXHAUSTED",
    "1000 tasks wait for a task of 'after', which is the most; use a batch, whose callback creates the tasks",
  ),
  after_crowded: row(
    429,
    "RESOURCE_EXHAUSTED",
    "too many tasks of this tenant wait for others with 'after'; try again when some of them run, or use a batch",
    true,
  ),
  invalid_topic: row(422, "INVALID_ARGUMENT", "the policy of the topic is invalid"),
  priority_not_allowed: row(
    400,
    "INVALID_ARGUMENT",
    "the topic of the queue does not allow this priority; choose one of its tiers",
  ),
  subscription_not_found: row(404, "NOT_FOUND", "not-found"),
  not_owner: row(403, "PERMISSION_DENIED", "not-owner"),
  not_in_progress: row(409, "ABORTED", "not-in-progress"),
  not_failed: row(409, "ABORTED", "the task is neither a dead letter nor failed"),
  has_ended: row(409, "ABORTED", "the task has already ended"),
  not_waiting: row(
    409,
    "ABORTED",
    "the task is not waiting: a worker holds it, or it has ended; cancel it or replay the dead letter instead",
  ),
  not_ended: row(409, "ABORTED", "the task has not ended"),
  ambiguous_id: row(
    409,
    "ABORTED",
    "several tasks match this part of an id; pass more characters of the id",
  ),
  idempotency_key_reused: row(409, "ALREADY_EXISTS", "idempotency key reused"),
  unique_key_held: row(
    409,
    "ALREADY_EXISTS",
    "another task has this unique key; wait for its end, or cancel it",
  ),
  placement_conflict: row(
    400,
    "INVALID_ARGUMENT",
    "with several shards, a task of a batch cannot have a lane, or a queue with the placement one, and the tasks of " +
      "'after' must be in one shard; leave one of them out, or use one shard",
  ),
  placement_in_use: row(
    409,
    "ABORTED",
    "the placement of a queue changes only while the queue has no waiting, leased and failed tasks, and no schedules; " +
      "stop its producers, delete its schedules, and let its tasks end",
  ),
  cost_above_burst: row(
    400,
    "INVALID_ARGUMENT",
    "the task costs more units than the rate of its lane or queue allows at once; split the task, or raise the burst",
  ),
  task_deleted: row(
    410,
    "NOT_FOUND",
    "the task of this idempotency key has ended and was deleted; its result is gone",
  ),
  too_many_artifacts: row(
    409,
    "RESOURCE_EXHAUSTED",
    "the task has as many artifacts as it may have; put several files into one",
  ),
  artifact_not_found: row(404, "NOT_FOUND", "the result has no such artifact in this server"),
  artifact_too_large: row(413, "RESOURCE_EXHAUSTED", "the artifact is too large"),
  range_not_satisfiable: row(416, "INVALID_ARGUMENT", "the artifact ends before this range"),
  artifacts_unavailable: row(
    503,
    "UNAVAILABLE",
    "artifact storage is unavailable; see the server log",
    true,
  ),
  no_webhook: row(409, "ABORTED", "the task has no webhook"),
  endpoint_disabled: row(
    409,
    "ABORTED",
    "the endpoint of the webhook is disabled; enable it first, see GET /v1/codeq/admin/webhooks/endpoints",
  ),
  endpoint_not_found: row(404, "NOT_FOUND", "no webhook to this endpoint has failed"),
  secret_not_found: row(404, "NOT_FOUND", "secret not found or expired"),
  too_many_pauses: row(
    409,
    "RESOURCE_EXHAUSTED",
    "too many queues of this tenant are paused; resume some of them",
  ),
  too_many_schedules: row(
    409,
    "RESOURCE_EXHAUSTED",
    "the tenant has 10000 schedules, which is the most; delete some, or let one schedule create several tasks",
  ),
  too_many_lanes: row(
    409,
    "RESOURCE_EXHAUSTED",
    "too many lanes of this tenant have limits of their own or are paused; take some of them back",
  ),
  too_many_topics: row(
    409,
    "RESOURCE_EXHAUSTED",
    "too many topics; delete those that are not used any more",
  ),
  too_many_subscriptions: row(
    409,
    "RESOURCE_EXHAUSTED",
    "too many subscriptions; delete those that are not used any more, or let them run out",
  ),
  backup_under_way: row(
    409,
    "ABORTED",
    "another backup is under way; try again when it has ended",
    true,
  ),
  too_many_jobs: row(
    409,
    "RESOURCE_EXHAUSTED",
    "too many bulk jobs of this tenant have not ended; wait for one, or abort it",
  ),
  worker_not_found: row(
    404,
    "NOT_FOUND",
    "worker not found: it holds no lease, and has no stream and no waiting claim",
  ),
  job_not_found: row(404, "NOT_FOUND", "there is no such bulk job"),
  job_has_ended: row(409, "ABORTED", "the bulk job has ended"),
  too_many_keys: row(409, "RESOURCE_EXHAUSTED", "too many API keys; revoke unused keys"),
  too_many_feeds: row(
    429,
    "RESOURCE_EXHAUSTED",
    "too many event feeds of this tenant are open; close one of them",
    true,
  ),
  rate_limited: row(429, "RESOURCE_EXHAUSTED", "rate limit exceeded", true),
  quota_exceeded: row(429, "RESOURCE_EXHAUSTED", "quota exceeded", true),
  disk_full: row(507, "RESOURCE_EXHAUSTED", "the server's disk is full; nothing was written", true),
  storage_failed: row(503, "UNAVAILABLE", "storage failed; the server is stopping", true),
  no_leader: row(
    503,
    "UNAVAILABLE",
    "no node is the leader for these tasks at the moment; nothing was changed, try again",
    true,
  ),
  led_elsewhere: row(
    409,
    "ABORTED",
    "another node leads a shard, and only the node that leads everything can do this; run codeq cluster handoff --to <this node> first",
  ),
  no_cluster: row(
    409,
    "ABORTED",
    "this server runs alone; set clusterMembers to make it a node of a cluster",
  ),
  node_not_ready: row(
    409,
    "ABORTED",
    "the node cannot lead now; start it and wait until codeq cluster status shows that it follows, or name another node",
  ),
  too_few_nodes: row(409, "ABORTED", "too few nodes would be left; add another node first"),
  outcome_unknown: row(
    503,
    "UNAVAILABLE",
    "the connection to the node was lost; the change may or may not have been made, try again",
    true,
  ),
  shutting_down: row(503, "UNAVAILABLE", "the server is shutting down; try again", true),
  overloaded: row(503, "UNAVAILABLE", "too many requests are waiting; try again", true),
  keys_unavailable: row(
    503,
    "UNAVAILABLE",
    "the keys to verify tokens cannot be fetched; try again",
    true,
  ),
  data_damaged: row(
    500,
    "DATA_LOSS",
    "the stored data of this task is damaged and in quarantine; see the log of the server",
  ),
  internal: row(500, "INTERNAL", "internal error"),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errors;

/** OpenSSL codes for a certificate that no known CA has signed. */
const unknownIssuerCodes: ReadonlySet<string> = new Set([
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
]);

/** Whether a connection failed because this client does not know the CA of the server. */
export function isUnknownIssuer(code: string): boolean {
  return unknownIssuerCodes.has(code);
}
