/** What administrators do: find tasks, look at them, and do something about them. */
import type { ReplyOf } from "@codeq/protocol";
import { requestOf } from "@codeq/protocol";
import { type AskApi, call, pages } from "../api-calls.ts";
import type {
  CreatedBackup,
  FailureGroup,
  QueueOverview,
  QueuePause,
  QueueSeries,
  QueueTrends,
  ServerSetting,
  Topic,
  TopicPolicy,
  TriageOptions,
} from "../api-types.ts";
import { type Duration, toMs, toSeconds } from "../duration.ts";
import type { TaskExplanation } from "../producer/explanation.ts";
import { type CancelOptions, graceBody } from "../producer/run.ts";
import { TenantSubscriptions } from "../subscriptions/subscriptions.ts";
import type {
  AdminTask,
  BulkOptions,
  BulkOutcome,
  DeadLetters,
  InspectedTask,
  ReplayChanges,
  TaskChanges,
  TaskFilter,
  TaskPage,
  TaskPageOptions,
  WorkerExplanation,
} from "./admin-task.ts";
import { AdminWebhooks } from "./admin-webhooks.ts";
import type { BulkJob, JobOptions } from "./bulk-job.ts";
import type { AddedNode, HandedOff, RemovedNode, RepairedLog, RepairOptions } from "./cluster.ts";

/** Which series. */
export interface SeriesOptions {
  /** One queue; all queues together without it. */
  readonly command?: string | undefined;
  /** `minute` for the last 24 hours, the default; `hour` for the last 7 days. */
  readonly resolution?: "minute" | "hour" | undefined;
  /** Only so many of the latest minutes or hours, and without what is usual. */
  readonly last?: number | undefined;
}

/** A request of an administrator, below `/v1/codeq/admin`. */
interface AdminRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
}

export type AskAdmin = (request: AdminRequest) => Promise<unknown>;

/** Reads a file below `/v1/codeq`. */
export type DownloadAsAdmin = (path: string) => Promise<ReadableStream<Uint8Array>>;

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
  readonly #api: AskApi;
  readonly #ask: AskAdmin;
  readonly #download: DownloadAsAdmin;

  /** @internal Use `client.admin`. */
  constructor(api: AskApi, download: DownloadAsAdmin) {
    this.#api = api;
    this.#ask = ({ path, ...request }) => api({ ...request, path: `/admin${path}` });
    this.#download = download;
    this.webhooks = new AdminWebhooks(this.#ask);
    this.subscriptions = new TenantSubscriptions(api, "admin");
  }

  /** The settings that the server runs with, and where each comes from; for operators. */
  async settings(): Promise<readonly ServerSetting[]> {
    return (await call(this.#api, "GET /admin/settings")).settings;
  }

  /** All tasks that match, page after page. */
  async *tasks(
    filter: TaskFilter = {},
    options: TaskPageOptions = {},
  ): AsyncGenerator<AdminTask, void, undefined> {
    for (let after = options.after; ; ) {
      const page = await this.findTasks(filter, { ...options, after });
      yield* page.tasks;
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  /** One page of the tasks that match. */
  async findTasks(filter: TaskFilter = {}, options: TaskPageOptions = {}): Promise<TaskPage> {
    const query = queryOf({ ...filter, ...options });
    return (await this.#ask({ method: "GET", path: `/tasks?${query}` })) as TaskPage;
  }

  /** A task with its payload, and its result once it has ended. */
  async task(id: string): Promise<InspectedTask> {
    return (await this.#ask({ method: "GET", path: taskPath(id) })) as InspectedTask;
  }

  /** Why a task is where it is: the rule that holds it, what is ahead of it, about when it starts. */
  async explainTask(id: string): Promise<TaskExplanation> {
    return (await this.#ask({ method: "GET", path: `${taskPath(id)}/explain` })) as TaskExplanation;
  }

  /** The content of a file of a result, piece by piece; `task()` lists the files by name. */
  artifact(id: string, name: string): Promise<ReadableStream<Uint8Array>> {
    return this.#download(`/admin${taskPath(id)}/artifacts/${encodeURIComponent(name)}`);
  }

  /**
   * Gives a dead letter all its attempts again; it keeps its id. With changes, a new task is made of any
   * task that has ended, and both name each other: `replayOf` and `replayedAs`.
   */
  async replay(id: string, changes: ReplayChanges = {}): Promise<AdminTask> {
    const isChanged = Object.values(changes).some((value) => value !== undefined);
    return this.#act(id, "replay", isChanged ? JSON.stringify(changes) : undefined);
  }

  /** Failures by what their errors have in common, the largest group first. */
  async failureGroups(filter: TaskFilter = {}): Promise<readonly FailureGroup[]> {
    const groups = new Map<string, FailureGroup>();
    for (let after: string | undefined = ""; after !== undefined; ) {
      const query: FilterTexts & { after: string } = { ...filterTexts(filter), after };
      const page: GroupPage = await call(this.#api, "GET /admin/failure-groups", { query });
      for (const group of page.groups) groups.set(group.id, addGroup(groups.get(group.id), group));
      after = page.next;
    }
    return [...groups.values()].sort((one, other) => other.count - one.count);
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
   * Ends a task that waits. A worker that has it is told, and gets a time of grace before the task is
   * taken away.
   */
  async cancel(id: string, options: CancelOptions = {}): Promise<AdminTask> {
    return this.#act(id, "cancel", graceBody(options));
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
    const body = JSON.stringify({
      command,
      priority,
      payload,
      runAt: runAt === undefined ? undefined : new Date(runAt).toISOString(),
      delaySeconds: delay === undefined ? undefined : toSeconds(toMs(delay, "delay")),
    });
    const answer = await this.#ask({ method: "PATCH", path: taskPath(id), body });
    return (answer as { readonly task: AdminTask }).task;
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
    await this.#ask({ method: "DELETE", path: taskPath(id) });
  }

  /** Replays dead letters, a bounded number at once. */
  async replayDeadLetters(which: DeadLetters, options: BulkOptions = {}): Promise<BulkOutcome> {
    return this.#bulk("replay", "replayed", { ...which, ...options });
  }

  /** Deletes dead letters, a bounded number at once. */
  async deleteDeadLetters(which: DeadLetters, options: BulkOptions = {}): Promise<BulkOutcome> {
    return this.#bulk("delete", "deleted", { ...which, ...options });
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
    return (await call(this.#api, "GET /admin/queues", { query: { view } })) as QueueOverview;
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
    return (await this.#postJob(options, {})) as BulkJob;
  }

  /** How many tasks such a job would be about, and whether there may be more. */
  async countJob(
    options: JobOptions,
  ): Promise<{ readonly matched: number; readonly hasMore: boolean }> {
    const answer = await this.#postJob(options, { dryRun: true });
    return answer as { readonly matched: number; readonly hasMore: boolean };
  }

  /** The jobs of the tenant, the newest first. */
  async jobs(): Promise<readonly BulkJob[]> {
    const answer = await this.#ask({ method: "GET", path: "/jobs" });
    return (answer as { readonly jobs: readonly BulkJob[] }).jobs;
  }

  async job(id: string): Promise<BulkJob> {
    return (await this.#ask({ method: "GET", path: jobPath(id) })) as BulkJob;
  }

  async pauseJob(id: string): Promise<BulkJob> {
    return (await this.#ask({ method: "POST", path: `${jobPath(id)}/pause` })) as BulkJob;
  }

  async resumeJob(id: string): Promise<BulkJob> {
    return (await this.#ask({ method: "POST", path: `${jobPath(id)}/resume` })) as BulkJob;
  }

  /** Ends a job; what it has done stays done. */
  async abortJob(id: string): Promise<BulkJob> {
    return (await this.#ask({ method: "POST", path: `${jobPath(id)}/abort` })) as BulkJob;
  }

  #postJob({ filter, canary, ...options }: JobOptions, more: object): Promise<unknown> {
    const { first, factor, failurePercent } = canary === true ? {} : (canary ?? {});
    const stages = {
      canary: true,
      canaryFirst: first,
      canaryFactor: factor,
      canaryFailurePercent: failurePercent,
    };
    const body = { ...options, ...filter, ...(canary === undefined ? {} : stages), ...more };
    return this.#ask({ method: "POST", path: "/jobs", body: JSON.stringify(body) });
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

  /** Why a worker gets no tasks; its id is as the server's list of workers shows it. */
  async explainWorker(workerId: string): Promise<WorkerExplanation> {
    const path = `/workers/${encodeURIComponent(workerId)}/explain`;
    return (await this.#ask({ method: "GET", path })) as WorkerExplanation;
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
    const body = JSON.stringify(options);
    const answer = await this.#ask({ method: "POST", path: "/cluster/handoff", body });
    return (answer as { shards: readonly HandedOff[] }).shards;
  }

  /**
   * Ends the cluster, to go back to a server alone; the token has to be an operator's. The cluster accepts nothing
   * afterwards: stop its nodes, and run `codeq cluster leave` on one of them.
   */
  async endCluster(): Promise<void> {
    await this.#ask({
      method: "POST",
      path: "/cluster/end",
      body: JSON.stringify({ confirm: true }),
    });
  }

  /**
   * Adds a node (`id=host:port`), which runs with the new list of members; the token has to be an operator's. Ask again
   * until the state is `added`.
   */
  async addNode(node: string): Promise<AddedNode> {
    const body = JSON.stringify({ node });
    return (await this.#ask({ method: "POST", path: "/cluster/add", body })) as AddedNode;
  }

  /**
   * Takes a node out of the cluster; the token has to be an operator's. Ask again: stop the node when the state is
   * `stop`, until it is `removed`.
   */
  async removeNode(node: string): Promise<RemovedNode> {
    const body = JSON.stringify({ node });
    return (await this.#ask({ method: "POST", path: "/cluster/remove", body })) as RemovedNode;
  }

  /**
   * Says what every node has of the logs and, with `confirm`, repairs what is wrong; the token has to be an operator's.
   */
  async repairCluster(options: RepairOptions = {}): Promise<readonly RepairedLog[]> {
    const body = JSON.stringify(options);
    const answer = await this.#ask({ method: "POST", path: "/cluster/repair", body });
    return (answer as { logs: readonly RepairedLog[] }).logs;
  }

  async #act(id: string, verb: string, body?: string): Promise<AdminTask> {
    const answer = await this.#ask({
      method: "POST",
      path: `${taskPath(id)}/${verb}`,
      ...(body === undefined ? {} : { body }),
    });
    return (answer as { readonly task: AdminTask }).task;
  }

  async #bulk(verb: string, counter: string, body: object): Promise<BulkOutcome> {
    const path = `/dead-letters/${verb}`;
    const answer = await this.#ask({ method: "POST", path, body: JSON.stringify(body) });
    const { [counter]: changed, ...rest } = answer as Record<string, unknown>;
    return { ...rest, changed } as unknown as BulkOutcome;
  }
}

function jobPath(id: string): string {
  return `/jobs/${encodeURIComponent(id)}`;
}

function taskPath(id: string): string {
  return `/tasks/${encodeURIComponent(id)}`;
}

type FilterTexts = ReturnType<typeof filterTexts>;
type GroupPage = ReplyOf<"GET /admin/failure-groups">;

/** The conditions as texts, as they are in a query. */
function filterTexts({ priority, ...filter }: TaskFilter) {
  const { createdAfter, createdBefore, endedAfter, endedBefore, ...texts } = filter;
  const text = (value: Date | string | number | undefined) =>
    value === undefined ? undefined : textOf(value);
  return {
    ...texts,
    priority: text(priority),
    createdAfter: text(createdAfter),
    createdBefore: text(createdBefore),
    endedAfter: text(endedAfter),
    endedBefore: text(endedBefore),
  };
}

function queryOf(
  given: Readonly<Record<string, Date | string | number | undefined>>,
): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) query.set(name, textOf(value));
  }
  return query;
}

/** The same group on two pages. */
function addGroup(before: FailureGroup | undefined, group: FailureGroup): FailureGroup {
  if (before === undefined) return group;
  const counts = new Map(before.commands.map(({ command, count }) => [command, count]));
  for (const { command, count } of group.commands) {
    counts.set(command, (counts.get(command) ?? 0) + count);
  }
  const [last, first] =
    Date.parse(before.lastSeen) >= Date.parse(group.lastSeen) ? [before, group] : [group, before];
  const isOlder = Date.parse(first.firstSeen) < Date.parse(last.firstSeen);
  return {
    ...last,
    count: before.count + group.count,
    dlq: before.dlq + group.dlq,
    failed: before.failed + group.failed,
    firstSeen: isOlder ? first.firstSeen : last.firstSeen,
    commands: [...counts].map(([command, count]) => ({ command, count })),
    trend: last.trend.map((count, hour) => count + (first.trend[hour] ?? 0)),
  };
}

function textOf(value: Date | string | number): string {
  return value instanceof Date ? value.toISOString() : String(value);
}
