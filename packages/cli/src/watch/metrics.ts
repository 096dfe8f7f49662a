/** The metrics of the server at one moment. Counts are over all tenants and since its start. */

export interface QueueSnapshot {
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  readonly dlq: number;
  /** Lanes with ready tasks. */
  readonly lanes: number;
  readonly created: number;
  readonly claimed: number;
  readonly completed: number;
  readonly failed: number;
  readonly expired: number;
  /** How long ago the next task of the queue was created; undefined when that is not known. */
  readonly oldestSeconds: number | undefined;
  /** From the creation of a task to its end, in seconds. */
  readonly latency: readonly Bucket[];
}

export interface Snapshot {
  /** By queue, which is the command in lower case. */
  readonly queues: ReadonlyMap<string, QueueSnapshot>;
  readonly claimWaiters: number;
  readonly resultWaiters: number;
  readonly workerStreams: number;
  readonly producerStreams: number;
  readonly heldReadys: number;
  readonly storage: string;
  readonly logBytes: number;
  readonly syncs: readonly Bucket[];
  readonly memoryBytes: number;
  readonly cpuSeconds: number;
  readonly lagSeconds: number;
  readonly startedSeconds: number;
}

/** Undefined when the text is not that of a codeQ server. */
export function snapshotOf(metrics: MetricsText): Snapshot | undefined {
  if (!metrics.has("codeq_storage_state")) return undefined;
  const storage = metrics.all("codeq_storage_state").find(({ value }) => value === 1);
  return {
    queues: queuesIn(metrics),
    claimWaiters: metrics.value("codeq_waiters", { kind: "claim" }),
    resultWaiters: metrics.value("codeq_waiters", { kind: "result" }),
    workerStreams: metrics.value("codeq_streams_open", { kind: "worker" }),
    producerStreams: metrics.value("codeq_streams_open", { kind: "producer" }),
    heldReadys: metrics.value("codeq_held_readys"),
    storage: storage?.labels["state"] ?? "unknown",
    logBytes: metrics.value("codeq_log_bytes"),
    syncs: bucketsIn(metrics, "codeq_log_sync_seconds"),
    memoryBytes: metrics.value("process_resident_memory_bytes"),
    cpuSeconds: metrics.value("process_cpu_seconds_total"),
    lagSeconds: metrics.value("codeq_event_loop_lag_seconds"),
    startedSeconds: metrics.value("process_start_time_seconds"),
  };
}

type Count = Exclude<keyof QueueSnapshot, "latency" | "oldestSeconds">;

function queuesIn(metrics: MetricsText): Map<string, QueueSnapshot> {
  const counts = new Map<string, Record<Count, number>>();
  const add = (command: string, count: Count, value: number): void => {
    const queue = command.toLowerCase();
    const known = counts.get(queue) ?? noCounts();
    known[count] += value;
    counts.set(queue, known);
  };
  const depths = {
    ready: "ready",
    delayed: "delayed",
    in_progress: "inProgress",
    dlq: "dlq",
  } as const;
  for (const { labels, value } of metrics.all("codeq_queue_depth")) {
    const place = depths[labels["queue"] as keyof typeof depths];
    if (place !== undefined) add(labels["command"] ?? "", place, value);
  }
  for (const { labels, value } of metrics.all("codeq_queue_lanes")) {
    add(labels["command"] ?? "", "lanes", value);
  }
  const take = (name: string, count: Count, status?: string): void => {
    for (const { labels, value } of metrics.all(name)) {
      if (status === undefined || labels["status"] === status) {
        add(labels["command"] ?? "", count, value);
      }
    }
  };
  take("codeq_task_created_total", "created");
  take("codeq_task_claimed_total", "claimed");
  take("codeq_task_completed_total", "completed", "COMPLETED");
  take("codeq_task_completed_total", "failed", "FAILED");
  take("codeq_lease_expired_total", "expired");
  return new Map(
    [...counts].map(([queue, known]) => {
      const isOfQueue = (labels: Readonly<Record<string, string>>): boolean =>
        labels["command"]?.toLowerCase() === queue;
      const latency = bucketsIn(metrics, "codeq_task_processing_latency_seconds", isOfQueue);
      const oldest = metrics
        .all("codeq_queue_oldest_seconds")
        .find(({ labels }) => isOfQueue(labels));
      return [queue, { ...known, latency, oldestSeconds: oldest?.value }];
    }),
  );
}

function noCounts(): Record<Count, number> {
  return {
    ready: 0,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    lanes: 0,
    created: 0,
    claimed: 0,
    completed: 0,
    failed: 0,
    expired: 0,
  };
}

export interface Bucket {
  /** Upper bound. */
  readonly to: number;
  /** Observations up to it. */
  readonly count: number;
}

/** The buckets of all samples with these labels, added up. */
export function bucketsIn(
  metrics: MetricsText,
  name: string,
  labels: (labels: Readonly<Record<string, string>>) => boolean = () => true,
): readonly Bucket[] {
  const counts = new Map<number, number>();
  for (const sample of metrics.all(`${name}_bucket`)) {
    if (!labels(sample.labels)) continue;
    const text = sample.labels["le"] ?? "";
    const to = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
    counts.set(to, (counts.get(to) ?? 0) + sample.value);
  }
  return [...counts].map(([to, count]) => ({ to, count })).sort((a, b) => a.to - b.to);
}

export function between(before: readonly Bucket[], after: readonly Bucket[]): readonly Bucket[] {
  const earlier = new Map(before.map(({ to, count }) => [to, count]));
  return after.map(({ to, count }) => ({ to, count: count - (earlier.get(to) ?? 0) }));
}

/**
 * Where the given share of the observations lies, evenly spread inside its bucket; undefined when
 * there are none. In the open last bucket it is the bound before it.
 */
export function quantile(buckets: readonly Bucket[], share: number): number | undefined {
  const total = buckets.at(-1)?.count ?? 0;
  if (total <= 0) return undefined;
  const rank = share * total;
  let from = 0;
  let below = 0;
  for (const { to, count } of buckets) {
    if (count >= rank) {
      if (!Number.isFinite(to)) return from;
      const inside = count - below;
      return inside === 0 ? to : from + ((to - from) * (rank - below)) / inside;
    }
    from = to;
    below = count;
  }
  return from;
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Reads the Prometheus text format, as far as the server writes it. */
export class MetricsText {
  readonly #samples: Map<string, Sample[]> = new Map();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const [, name, labels = "", value = ""] =
        /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line) ?? [];
      if (name === undefined) continue;
      const samples = this.#samples.get(name) ?? [];
      samples.push({ labels: labelsIn(labels), value: numberOf(value) });
      this.#samples.set(name, samples);
    }
  }

  has(name: string): boolean {
    return this.#samples.has(name);
  }

  all(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? [];
  }

  /** The sum over all samples that carry these labels. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels);
    return this.all(name)
      .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, sample) => sum + sample.value, 0);
  }
}

const escaped: Readonly<Record<string, string>> = { n: "\n", '"': '"', "\\": "\\" };

function labelsIn(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/(\w+)="((?:\\.|[^"\\])*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, letter: string) => escaped[letter] ?? letter);
  }
  return labels;
}

function numberOf(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  return text === "-Inf" ? Number.NEGATIVE_INFINITY : Number(text);
}
