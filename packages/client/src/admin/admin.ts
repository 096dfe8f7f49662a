/** What administrators do: find tasks, look at them, and do something about them. */
import { requestOf } from "@codeq/protocol";
import { type AskApi, answerWith, call, pages } from "../api-calls.ts";
import type {
  AddedNode,
  AdminTask,
  AuditRecord,
  BulkJob,
  BulkOptions,
  BulkOutcome,
  ConnectedWorker,
  CreatedBackup,
  FailureGroup,
  HandedOff,
  InspectedTask,
  Lane,
  LaneLimits,
  QueueOverview,
  QueuePause,
  QueueSeries,
  QueueTrends,
  RemovedNode,
  RepairedLog,
  RepairOptions,
  ReplayChanges,
  ServerSetting,
  TaskExplanation,
  TaskPage,
  Topic,
  TopicPolicy,
  TriageOptions,
  WorkerExplanation,
} from "../api-types.ts";
import { type Duration, toMs } from "../duration.ts";
import { type CancelOptions, graceBody } from "../producer/run.ts";
import { TenantSubscriptions } from "../subscriptions/subscriptions.ts";
import { AdminKeys } from "./admin-keys.ts";
import type { DeadLetters, TaskChanges, TaskFilter, TaskPageOptions } from "./admin-task.ts";
import { AdminWebhooks } from "./admin-webhooks.ts";
import { failureGroups } from "./failure-groups.ts";

/** Which series. */
export interface SeriesOptions {
  /** One queue; all queues together without it. */
  readonly command?: string | undefined;
  /** `minute` for the last 24 hours, the default; `hour` for the last 7 days. */
  readonly resolution?: "minute" | "hour" | undefined;
  /** Only so many of the latest minutes or hours, and without what is usual. */
  readonly last?: number | undefined;
}

/** Which audit records. */
export interface AuditOptions {
  /** Only records at or after this time. */
  readonly from?: Date | string | undefined;
  /** Only records before this time. */
  readonly to?: Date | string | undefined;
  /** Only records of this action, such as `create_api_key`. */
  readonly action?: string | undefined;
  readonly outcome?: "ok" | "refused" | "failed" | undefined;
}

/** Reads a file below `/v1/codeq`. */
export type DownloadAsAdmin = (path: string) => Promise<ReadableStream<Uint8Array>>;

/** Which lanes to list. */
export interface LanesOptions {
  /** Only this lane. */
  readonly lane?: string | undefined;
  /** How many. Default: 100. */
  readonly limit?: number | undefined;
}

/**
 * The administrator's side of a client; the token has to be an administrator's. Ids may be cut to at
 * least four characters of their beginning or end.
 *
 * ```ts
 * for await (const { id, error } of client.admin.tasks({ place: "dead", command: "mail" })) {
 *   console.log(id, error);
 * }
 * await client.admin.replayDeadLetters({ command: "mail", error: "no such host" });
 * ```
 */
export class Admin {
  /** Deliveries of webhooks, failing endpoints, and the signing secrets. */
  readonly webhooks: AdminWebhooks;
  /** All subscriptions of the tenant. */
  readonly subscriptions: TenantSubscriptions;
  /** API keys of the tenant. */
  readonly keys: AdminKeys;
  readonly #api: AskApi;
  readonly #download: DownloadAsAdmin;

  /** @internal Use `client.admin`. */
  constructor(api: AskApi, download: DownloadAsAdmin) {
    this.#api = api;
    this.#download = download;
    this.webhooks = new AdminWebhooks(api);
    this.keys = new AdminKeys(api);
    this.subscriptions = new TenantSubscriptions(api, "admin");
  }

  /** The settings that the server runs with, and where each comes from; for operators. */
  async settings(): Promise<readonly ServerSetting[]> {
    return (await call(this.#api, "GET /admin/settings")).settings;
  }

  /** What administrators did and who was refused, the newest first. */
  audit(options: AuditOptions = {}): AsyncGenerator<AuditRecord, void, undefined> {
    return pages(this.#api, "GET /admin/audit", withTexts(options));
  }

  /** Workers that hold leases or have a stream open. */
  workers(): AsyncGenerator<ConnectedWorker, void, undefined> {
    return pages(this.#api, "GET /admin/workers");
  }

  /** The tenants that have tasks; for operators. */
  tenants(): AsyncGenerator<string, void, undefined> {
    return tenants(this.#api);
  }

  /** All tasks that match, page after page. */
  tasks(
    filter: TaskFilter = {},
    options: TaskPageOptions = {},
  ): AsyncGenerator<AdminTask, void, undefined> {
    return pages(this.#api, "GET /admin/tasks", { ...filterTexts(filter), ...options });
  }

  /** One page of the tasks that match. */
  async findTasks(filter: TaskFilter = {}, options: TaskPageOptions = {}): Promise<TaskPage> {
    const query = { ...filterTexts(filter), ...options };
    return await call(this.#api, "GET /admin/tasks", { query });
  }

  /** A task with its payload, and its result once it has ended. */
  task(id: string): Promise<InspectedTask> {
    return call(this.#api, "GET /admin/tasks/:id", { params: { id } });
  }

  /** Why a task is where it is: the rule that holds it, what is ahead of it, about when it starts. */
  explainTask(id: string): Promise<TaskExplanation> {
    return call(this.#api, "GET /admin/tasks/:id/explain", { params: { id } });
  }

  /** The content of a file of a result, piece by piece; `task()` lists the files by name. */
  artifact(id: string, name: string): Promise<ReadableStream<Uint8Array>> {
    const given = { params: { id, name } };
    return this.#download(requestOf("GET /admin/tasks/:id/artifacts/:name", given).path);
  }

  /**
   * Gives a dead letter or a failed task all its attempts again; it keeps its id. With changes, a new task is made of any
   * task that has ended, and both name each other: `replayOf` and `replayedAs`.
   */
  async replay(id: string, changes: ReplayChanges = {}): Promise<AdminTask> {
    const isChanged = Object.values(changes).some((value) => value !== undefined);
    const given = { params: { id }, ...(isChanged ? { body: changes } : {}) };
    return (await call(this.#api, "POST /admin/tasks/:id/replay", given)).task;
  }

  /** Failures by what their errors have in common, the largest group first. */
  failureGroups(filter: TaskFilter = {}): Promise<readonly FailureGroup[]> {
    return failureGroups(this.#api, filterTexts(filter));
  }

  /**
   * Resolves, ignores or snoozes a failure group, which changes no task. A group that fails again after it was
   * resolved has the state `returned`.
   *
   * ```ts
   * await client.admin.triage(group.id, { state: "snoozed", snoozeSeconds: 8 * 3600 });
   * ```
   */
  async triage(group: string, options: TriageOptions): Promise<void> {
    const given = { params: { id: group }, body: options };
    await call(this.#api, "PUT /admin/failure-groups/:id/triage", given);
  }

  /**
   * Ends a task that waits. A worker that has it is notified, and loses the task after the
   * grace period.
   */
  async cancel(id: string, options: CancelOptions = {}): Promise<AdminTask> {
    const given = { params: { id }, body: graceBody(options) };
    return (await call(this.#api, "POST /admin/tasks/:id/cancel", given)).task;
  }

  /**
   * Changes a task that waits: its queue, its priority, its payload, or when it may be claimed. It keeps
   * its id. Rejects with the code `not_waiting` when a worker has it or it has ended.
   *
   * ```ts
   * await client.admin.edit(id, { command: "mail-slow", priority: 0 });
   * ```
   */
  async edit(id: string, changes: TaskChanges): Promise<AdminTask> {
    const { command, priority, payload, runAt, delay } = changes;
    const body = {
      command,
      priority,
      payload,
      runAt: runAt === undefined ? undefined : new Date(runAt).toISOString(),
      delaySeconds: delay === undefined ? undefined : toMs(delay, "delay") / 1000,
    };
    return (await call(this.#api, "PATCH /admin/tasks/:id", { params: { id }, body })).task;
  }

  /** Moves a task that waits to another queue. */
  move(id: string, command: string): Promise<AdminTask> {
    return this.edit(id, { command });
  }

  /** Makes a delayed task ready now. */
  runNow(id: string): Promise<AdminTask> {
    return this.edit(id, { delay: 0 });
  }

  /** Lets a task that waits be claimed at this moment, or after this time. */
  reschedule(id: string, when: Date | { readonly delay: Duration }): Promise<AdminTask> {
    return this.edit(id, when instanceof Date ? { runAt: when } : when);
  }

  /** Removes a task that has ended. */
  async deleteTask(id: string): Promise<void> {
    await call(this.#api, "DELETE /admin/tasks/:id", { params: { id } });
  }

  /** Replays dead letters and failed tasks, a bounded number at once. */
  async replayDeadLetters(which: DeadLetters, options: BulkOptions = {}): Promise<BulkOutcome> {
    const body = withTexts({ ...which, ...options });
    const answer = await call(this.#api, "POST /admin/dead-letters/replay", { body });
    const { replayed: changed, ...rest } = answer;
    return { ...rest, changed };
  }

  /** Deletes dead letters and failed tasks, a bounded number at once. */
  async deleteDeadLetters(which: DeadLetters, options: BulkOptions = {}): Promise<BulkOutcome> {
    const body = withTexts({ ...which, ...options });
    const answer = await call(this.#api, "POST /admin/dead-letters/delete", { body });
    const { deleted: changed, ...rest } = answer;
    return { ...rest, changed };
  }

  /**
   * Stops handing out the tasks of a queue: claims pass it over, and tasks can still be enqueued. Workers keep
   * what they have.
   */
  async pause(command: string, options: { readonly reason?: string } = {}): Promise<QueuePause> {
    const given = { params: { command }, body: options };
    return await call(this.#api, "POST /admin/queues/:command/pause", given);
  }

  /** Lets a paused queue go on. */
  async resume(command: string): Promise<void> {
    await call(this.#api, "POST /admin/queues/:command/resume", { params: { command } });
  }

  /** The queues that are paused. */
  async pauses(): Promise<readonly QueuePause[]> {
    return (await call(this.#api, "GET /admin/pauses")).pauses;
  }

  /** All queues of the tenant that have tasks or are paused, with rates, ages and totals. */
  async queues(): Promise<QueueOverview> {
    const view = "details";
    return answerWith("totals", await call(this.#api, "GET /admin/queues", { query: { view } }));
  }

  /** What happened by the minute or by the hour: in one queue or, without a command, in all together. */
  async series(options: SeriesOptions = {}): Promise<QueueSeries> {
    const { command, resolution = "minute", last } = options;
    const query = { resolution, last };
    if (command === undefined) return await call(this.#api, "GET /admin/series", { query });
    const given = { params: { command }, query };
    return await call(this.#api, "GET /admin/queues/:command/series", given);
  }

  /** What happened in several queues in each of the last whole minutes; at most 100 queues and 60 minutes. */
  async trends(
    commands: readonly string[],
    options: { readonly last?: number | undefined } = {},
  ): Promise<QueueTrends> {
    const query = { queues: commands.join(","), last: options.last };
    return await call(this.#api, "GET /admin/trends", { query });
  }

  /** Begins a job that goes through all tasks that match; it survives restarts of the server. */
  async startJob(options: JobOptions): Promise<BulkJob> {
    const body = jobBody(options);
    return answerWith("state", await call(this.#api, "POST /admin/jobs", { body }));
  }

  /** How many tasks such a job would change. */
  async countJob(options: JobOptions): Promise<number> {
    let sum = 0;
    let after: string | undefined;
    do {
      const body = { ...jobBody(options), dryRun: true, after };
      const answer = await call(this.#api, "POST /admin/jobs", { body });
      const { matched, next } = answerWith("hasMore", answer);
      sum += matched;
      after = next;
    } while (after !== undefined);
    return sum;
  }

  /** The jobs of the tenant, the newest first. */
  async jobs(): Promise<readonly BulkJob[]> {
    return (await call(this.#api, "GET /admin/jobs")).jobs;
  }

  job(id: string): Promise<BulkJob> {
    return call(this.#api, "GET /admin/jobs/:id", { params: { id } });
  }

  pauseJob(id: string): Promise<BulkJob> {
    return call(this.#api, "POST /admin/jobs/:id/pause", { params: { id } });
  }

  resumeJob(id: string): Promise<BulkJob> {
    return call(this.#api, "POST /admin/jobs/:id/resume", { params: { id } });
  }

  /** Ends a job; what it has done stays done. */
  abortJob(id: string): Promise<BulkJob> {
    return call(this.#api, "POST /admin/jobs/:id/abort", { params: { id } });
  }

  /** Gives a queue a policy of its own, or changes it; what is left out is reset. */
  putTopic(name: string, policy: TopicPolicy): Promise<Topic> {
    const given = { params: { topicName: name }, body: policy };
    return call(this.#api, "PUT /admin/topics/:topicName", given);
  }

  /** The policy of a queue; rejects with the code `topic_not_found` when it has none. */
  topic(name: string): Promise<Topic> {
    return call(this.#api, "GET /admin/topics/:topicName", { params: { topicName: name } });
  }

  /** All queues that have a policy of their own, page after page. */
  topics(): AsyncGenerator<Topic, void, undefined> {
    return pages(this.#api, "GET /admin/topics");
  }

  /** Takes its policy from a queue; tasks stay, and the settings of the server apply. */
  deleteTopic(name: string): Promise<void> {
    return call(this.#api, "DELETE /admin/topics/:topicName", {
      params: { topicName: name },
      query: { deletionPolicy: "Delete" },
    });
  }

  /** The lanes of a queue, those with the most ready tasks first, or one of them. */
  async lanes(queue: string, { lane, limit }: LanesOptions = {}): Promise<readonly Lane[]> {
    const given = { params: { topicName: queue }, query: { lane, limit } };
    return (await call(this.#api, "GET /admin/topics/:topicName/lanes", given)).lanes;
  }

  /** Gives one lane limits of its own; what is left out is as in the topic. */
  putLane(queue: string, lane: string, limits: LaneLimits): Promise<Lane> {
    const given = { params: { topicName: queue, lane }, body: limits };
    return call(this.#api, "PUT /admin/topics/:topicName/lanes/:lane", given);
  }

  /** Takes the limits of one lane back. */
  deleteLane(queue: string, lane: string): Promise<void> {
    const given = { params: { topicName: queue, lane } };
    return call(this.#api, "DELETE /admin/topics/:topicName/lanes/:lane", given);
  }

  /** Hands out no task of a lane until it is resumed. */
  pauseLane(queue: string, lane: string, reason: string = ""): Promise<Lane> {
    const given = { params: { topicName: queue, lane }, body: { reason } };
    return call(this.#api, "POST /admin/topics/:topicName/lanes/:lane/pause", given);
  }

  /** Hands out the tasks of a paused lane again. */
  resumeLane(queue: string, lane: string): Promise<Lane> {
    const given = { params: { topicName: queue, lane } };
    return call(this.#api, "POST /admin/topics/:topicName/lanes/:lane/resume", given);
  }

  /** Why a worker gets no tasks; its id is as the server's list of workers shows it. */
  explainWorker(workerId: string): Promise<WorkerExplanation> {
    return call(this.#api, "GET /admin/workers/:workerId/explain", { params: { workerId } });
  }

  /**
   * Writes a backup on the machine of the server, below its `backupDir`; the token has to be an operator's. The
   * first one of a name has everything, further ones what happened since.
   */
  backup(name: string, options: { readonly full?: boolean } = {}): Promise<CreatedBackup> {
    return call(this.#api, "POST /admin/backups", { body: { name, ...options } });
  }

  /**
   * Reads a backup over the network; the token has to be an operator's. `codeq backup verify` and `codeq restore`
   * read the file. `since` is where an earlier backup ends: `<store>:<identity>:<record>` of each store,
   * separated by commas.
   *
   * ```ts
   * await writeFile("codeq.backup", await client.admin.readBackup());
   * ```
   */
  readBackup(options: { readonly since?: string } = {}): Promise<ReadableStream<Uint8Array>> {
    const query = { since: options.since || undefined };
    return this.#download(requestOf("GET /admin/backup", { query }).path);
  }

  /**
   * Has another node of the cluster lead a shard, or all of them; the token has to be an operator's. Answers when
   * the next leaders are known.
   */
  async handOff(
    options: { readonly shard?: string; readonly to?: string } = {},
  ): Promise<readonly HandedOff[]> {
    return (await call(this.#api, "POST /admin/cluster/handoff", { body: options })).shards;
  }

  /**
   * Ends the cluster, to go back to a server alone; the token has to be an operator's. The cluster accepts nothing
   * afterwards: stop its nodes, and run `codeq cluster leave` on one of them.
   */
  async endCluster(): Promise<void> {
    await call(this.#api, "POST /admin/cluster/end", { body: { confirm: true } });
  }

  /**
   * Adds a node (`id=host:port`), which runs with the new list of members; the token has to be an operator's. Ask again
   * until the state is `added`.
   */
  addNode(node: string): Promise<AddedNode> {
    return call(this.#api, "POST /admin/cluster/add", { body: { node } });
  }

  /**
   * Takes a node out of the cluster; the token has to be an operator's. Ask again: stop the node when the state is
   * `stop`, until it is `removed`.
   */
  removeNode(node: string): Promise<RemovedNode> {
    return call(this.#api, "POST /admin/cluster/remove", { body: { node } });
  }

  /**
   * Says what every node has of the logs and, with `confirm`, repairs what is wrong; the token has to be an operator's.
   */
  async repairCluster(options: RepairOptions = {}): Promise<readonly RepairedLog[]> {
    return (await call(this.#api, "POST /admin/cluster/repair", { body: options })).logs;
  }
}

/** The endpoint has other pages than those of `pages`: the next page begins after the last name. */
export async function* tenants(ask: AskApi): AsyncGenerator<string, void, undefined> {
  for (let after = "", isMore = true; isMore; ) {
    const page = await call(ask, "GET /admin/tenants", { query: { after } });
    yield* page.tenants;
    isMore = page.hasMore;
    after = page.tenants.at(-1) ?? after;
  }
}

/** The conditions as texts, as they are in a query. */
function filterTexts({ priority, ...filter }: TaskFilter) {
  return { ...withTexts(filter), priority: priority?.toString() };
}

/** The same with texts in place of dates. */
function withTexts<T extends object>(given: T): { [N in keyof T]: Exclude<T[N], Date> } {
  const texts = Object.entries(given).map(([name, value]) => [
    name,
    value instanceof Date ? value.toISOString() : value,
  ]);
  return Object.fromEntries(texts);
}

function jobBody({ filter = {}, canary, ...options }: JobOptions) {
  const body = { ...options, ...withTexts(filter) };
  if (canary === undefined) return body;
  const { first, factor, failurePercent }: CanaryOptions = canary === true ? {} : canary;
  return {
    ...body,
    canary: true,
    canaryFirst: first,
    canaryFactor: factor,
    canaryFailurePercent: failurePercent,
  };
}

/** What to do to which tasks. */
export interface JobOptions {
  /**
   * `replay` is for dead letters and failed tasks, `delete` for tasks that have ended, `cancel` for all others, `move`
   * for those that wait.
   */
  readonly action: "replay" | "delete" | "cancel" | "move";
  /** Which tasks; without it `all` has to be said. */
  readonly filter?: TaskFilter | undefined;
  readonly all?: boolean | undefined;
  /** Tasks a second; default: 100. */
  readonly ratePerSecond?: number | undefined;
  /** For `cancel`: seconds that a worker gets to stop. */
  readonly graceSeconds?: number | undefined;
  /** For `move`: the queue that the tasks go to. */
  readonly moveTo?: string | undefined;
  /** For `replay`: few tasks first, and more while enough of them succeed. */
  readonly canary?: CanaryOptions | true | undefined;
}

/** How a job feels its way. */
export interface CanaryOptions {
  /** How many tasks the first stage replays; default: 10. */
  readonly first?: number | undefined;
  /** How much larger each stage is; default: 2. */
  readonly factor?: number | undefined;
  /** The job stops when more of a stage fail again; default: 20. */
  readonly failurePercent?: number | undefined;
}
