/**
 * The Grafana dashboard as a table: rows of panels, each with its queries. Grafana's own builders turn it
 * into the JSON that Grafana imports, so that fields have the names and types of its schema.
 */
import {
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatBuilder } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as GraphBuilder } from "@grafana/grafana-foundation-sdk/timeseries";

interface Query {
  readonly expr: string;
  /** Labels of the series between double braces. */
  readonly legend: string;
}

interface PanelRow {
  readonly title: string;
  /** Undefined for plain numbers. */
  readonly unit?: string;
  readonly shape?: "graph" | "stat";
  readonly about?: string;
  readonly queries: readonly Query[];
}

interface Section {
  readonly title: string;
  readonly panels: readonly PanelRow[];
}

const server = 'job="$job",instance=~"$instance"';
const queues = `${server},command=~"$command"`;

const rate = (metric: string, labels = server): string =>
  `rate(${metric}{${labels}}[$__rate_interval])`;
const sum = (by: string, expr: string): string =>
  by === "" ? `sum(${expr})` : `sum by (${by}) (${expr})`;
const gauge = (metric: string, labels = server): string => `${metric}{${labels}}`;

/** Two lines of a histogram: the median and the 99th percentile. */
function quantiles(metric: string, by = "", labels = server): Query[] {
  const legend = by === "" ? "" : ` {{${by}}}`;
  const groups = by === "" ? "le" : `le, ${by}`;
  return [0.5, 0.99].map((share) => ({
    expr: `histogram_quantile(${share}, ${sum(groups, rate(`${metric}_bucket`, labels))})`,
    legend: `p${share * 100}${legend}`,
  }));
}

function one(title: string, unit: string | undefined, expr: string, legend: string): PanelRow {
  return { title, ...(unit === undefined ? {} : { unit }), queries: [{ expr, legend }] };
}

function stat(title: string, unit: string | undefined, expr: string): PanelRow {
  return { ...one(title, unit, expr, ""), shape: "stat" };
}

const sections: readonly Section[] = [
  {
    title: "At a glance",
    panels: [
      stat(
        "Storage accepts writes",
        "bool_yes_no",
        `min(${gauge("codeq_storage_state", `${server},state="ok"`)})`,
      ),
      stat("Longest wait", "s", `max(${gauge("codeq_queue_oldest_seconds", queues)})`),
      stat("Ready", undefined, sum("", gauge("codeq_queue_depth", `${queues},queue="ready"`))),
      stat(
        "Being worked on",
        undefined,
        sum("", gauge("codeq_queue_depth", `${queues},queue="in_progress"`)),
      ),
      stat("Dead letters", undefined, sum("", gauge("codeq_dlq_depth", queues))),
      stat("Finished", "ops", sum("", rate("codeq_task_completed_total", queues))),
    ],
  },
  {
    title: "Queues",
    panels: [
      one(
        "Ready",
        undefined,
        sum("command", gauge("codeq_queue_depth", `${queues},queue="ready"`)),
        "{{command}}",
      ),
      one(
        "Longest wait",
        "s",
        `max by (command) (${gauge("codeq_queue_oldest_seconds", queues)})`,
        "{{command}}",
      ),
      one(
        "Delayed",
        undefined,
        sum("command", gauge("codeq_queue_depth", `${queues},queue="delayed"`)),
        "{{command}}",
      ),
      one(
        "Dead letters",
        undefined,
        sum("command", gauge("codeq_dlq_depth", queues)),
        "{{command}}",
      ),
      {
        title: "Tasks",
        unit: "ops",
        queries: [
          { expr: sum("", rate("codeq_task_created_total", queues)), legend: "created" },
          { expr: sum("", rate("codeq_task_claimed_total", queues)), legend: "claimed" },
          { expr: sum("status", rate("codeq_task_completed_total", queues)), legend: "{{status}}" },
        ],
      },
      {
        title: "From creation to end",
        unit: "s",
        queries: quantiles("codeq_task_processing_latency_seconds", "", queues),
      },
      one(
        "Leases that ran out",
        "ops",
        sum("command", rate("codeq_lease_expired_total", queues)),
        "{{command}}",
      ),
      one(
        "Webhooks",
        "ops",
        sum("kind, outcome", rate("codeq_webhook_deliveries_total", queues)),
        "{{kind}} {{outcome}}",
      ),
    ],
  },
  {
    title: "Requests",
    panels: [
      one(
        "Operations",
        "ops",
        sum("operation", rate("codeq_operation_seconds_count")),
        "{{operation}}",
      ),
      {
        title: "Time of operations",
        unit: "s",
        about:
          "Waiting included: a claim or a reader of a result may wait for as long as it asked to.",
        queries: quantiles("codeq_operation_seconds", "operation"),
      },
      one(
        "Operations that failed",
        "ops",
        sum("operation", rate("codeq_operation_seconds_count", `${server},outcome="failed"`)),
        "{{operation}}",
      ),
      one("HTTP answers", "reqps", sum("status", rate("codeq_http_requests_total")), "{{status}}"),
      {
        title: "Refusals",
        unit: "ops",
        queries: [
          { expr: sum("code", rate("codeq_access_refusals_total")), legend: "{{code}}" },
          {
            expr: sum("scope", rate("codeq_rate_limit_hits_total")),
            legend: "rate limit {{scope}}",
          },
          { expr: sum("quota", rate("codeq_quota_refusals_total")), legend: "quota {{quota}}" },
        ],
      },
      {
        title: "Connections and streams",
        queries: [
          { expr: sum("listener", gauge("codeq_connections")), legend: "{{listener}} connections" },
          { expr: sum("kind", gauge("codeq_streams_open")), legend: "{{kind}} streams" },
          { expr: sum("kind", gauge("codeq_waiters")), legend: "waiting for {{kind}}" },
          { expr: sum("", gauge("codeq_held_readys")), legend: "held Readys" },
          { expr: sum("", gauge("codeq_feeds_open")), legend: "feeds" },
        ],
      },
    ],
  },
  {
    title: "Storage",
    panels: [
      { title: "Time of a sync", unit: "s", queries: quantiles("codeq_log_sync_seconds", "shard") },
      {
        title: "Time of an append",
        unit: "s",
        queries: quantiles("codeq_log_append_seconds", "shard"),
      },
      { title: "Changes in a group", queries: quantiles("codeq_commit_group_batches", "shard") },
      { title: "Time of a flush", unit: "s", queries: quantiles("codeq_flush_seconds", "shard") },
      {
        title: "Time without commits",
        unit: "percentunit",
        about:
          "Share of the time in which commits were held back because the store did not keep up.",
        queries: [
          { expr: rate("codeq_write_stall_seconds_total"), legend: "{{instance}} {{shard}}" },
        ],
      },
      {
        title: "Amplification",
        queries: [
          { expr: gauge("codeq_write_amplification"), legend: "write {{instance}} {{shard}}" },
          { expr: gauge("codeq_lsm_read_amplification"), legend: "read {{instance}} {{shard}}" },
        ],
      },
      one("Levels", "bytes", sum("level", gauge("codeq_lsm_level_bytes")), "level {{level}}"),
      one("Files", undefined, sum("level", gauge("codeq_lsm_level_files")), "level {{level}}"),
      one(
        "Compaction backlog",
        "bytes",
        gauge("codeq_lsm_compaction_backlog_bytes"),
        "{{instance}} {{shard}}",
      ),
      {
        title: "Compactions",
        unit: "Bps",
        queries: [
          { expr: sum("", rate("codeq_lsm_compaction_read_bytes_total")), legend: "read" },
          { expr: sum("", rate("codeq_lsm_compaction_write_bytes_total")), legend: "written" },
        ],
      },
      {
        title: "Memory of the storage",
        unit: "bytes",
        queries: [
          { expr: sum("", gauge("codeq_lsm_memory_bytes")), legend: "buffers and cache" },
          { expr: sum("", gauge("codeq_lsm_buffer_bytes")), legend: "buffers" },
          { expr: sum("", gauge("codeq_lsm_cache_max_bytes")), legend: "cache at most" },
          { expr: sum("", gauge("codeq_overlay_bytes")), legend: "not in the store yet" },
        ],
      },
      {
        title: "Log",
        unit: "bytes",
        queries: [{ expr: gauge("codeq_log_bytes"), legend: "{{instance}} {{shard}}" }],
      },
    ],
  },
  {
    title: "Cluster",
    panels: [
      {
        title: "Shards that each node leads",
        about: "The panels of this row are empty for a server alone.",
        queries: [{ expr: gauge("codeq_cluster_shards_leading"), legend: "{{instance}}" }],
      },
      {
        title: "Shards in trouble",
        queries: [
          {
            expr: gauge("codeq_cluster_shards_without_leader"),
            legend: "without a leader {{instance}}",
          },
          { expr: gauge("codeq_cluster_shards_diverged"), legend: "diverged {{instance}}" },
          { expr: gauge("codeq_cluster_shards_with_problems"), legend: "problem {{instance}}" },
        ],
      },
      {
        title: "Changes of leaders",
        queries: [
          {
            expr: `max(changes(codeq_cluster_epochs{${server}}[$__rate_interval]))`,
            legend: "takeovers",
          },
        ],
      },
      one(
        "Time since a leader was last heard",
        "s",
        gauge("codeq_cluster_silent_seconds"),
        "{{instance}}",
      ),
    ],
  },
  {
    title: "Process",
    panels: [
      one("CPU", "percentunit", rate("process_cpu_seconds_total"), "{{instance}}"),
      {
        title: "Memory",
        unit: "bytes",
        queries: [
          { expr: gauge("process_resident_memory_bytes"), legend: "resident {{instance}}" },
          { expr: gauge("nodejs_heap_size_used_bytes"), legend: "heap {{instance}}" },
        ],
      },
      one("Lateness of the event loop", "s", gauge("codeq_event_loop_lag_seconds"), "{{instance}}"),
      one("Uptime", "s", `time() - ${gauge("process_start_time_seconds")}`, "{{instance}}"),
    ],
  },
];

const datasource = { type: "prometheus", uid: "$datasource" };
const columns = 24;
const statHeight = 4;
const graphHeight = 8;

export function grafanaDashboard(): string {
  const dashboard = new DashboardBuilder("codeQ")
    .uid("codeq")
    .description("A codeQ server or cluster: queues, requests, storage, nodes, process.")
    .tags(["codeq"])
    .timezone("browser")
    .tooltip(DashboardCursorSync.Crosshair)
    .refresh("30s")
    .time({ from: "now-3h", to: "now" })
    .withVariable(
      new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus"),
    )
    .withVariable(choice("job", "label_values(codeq_storage_state, job)"))
    .withVariable(several("instance", 'label_values(codeq_storage_state{job="$job"}, instance)'))
    .withVariable(several("command", 'label_values(codeq_queue_depth{job="$job"}, command)'));
  let id = 0;
  const nextId = (): number => {
    id += 1;
    return id;
  };
  for (const { title, panels } of sections) {
    dashboard.withRow(new RowBuilder(title).id(nextId()));
    for (const each of panels) dashboard.withPanel(panelOf(each, panels.length).id(nextId()));
  }
  return `${JSON.stringify(dashboard.build(), undefined, 2)}\n`;
}

function choice(name: string, query: string): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .datasource(datasource)
    .query(query)
    .refresh(VariableRefresh.OnTimeRangeChanged);
}

function several(name: string, query: string): QueryVariableBuilder {
  return choice(name, query).multi(true).includeAll(true).allValue(".*");
}

function panelOf(row: PanelRow, inSection: number): StatBuilder | GraphBuilder {
  const isStat = row.shape === "stat";
  const panel = isStat ? new StatBuilder() : new GraphBuilder().fillOpacity(10);
  panel
    .title(row.title)
    .datasource(datasource)
    .height(isStat ? statHeight : graphHeight)
    .span(isStat ? columns / inSection : columns / 2);
  if (row.unit !== undefined) panel.unit(row.unit);
  if (row.about !== undefined) panel.description(row.about);
  for (const [index, { expr, legend }] of row.queries.entries()) {
    const query = new DataqueryBuilder()
      .datasource(datasource)
      .refId(String.fromCharCode(65 + index))
      .expr(expr)
      .legendFormat(legend);
    panel.withTarget(isStat ? query.instant() : query.range());
  }
  return panel;
}
