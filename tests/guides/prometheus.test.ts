/** Prometheus takes what the guides configure, and every alert is about metrics of ours and fires. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { metricTable } from "../../packages/server/src/telemetry/metrics.ts";
import { root, temporaryDirectory } from "../e2e/server-process.ts";
import { debianProgram } from "./debian-program.ts";
import { blocksOf } from "./marks.ts";

const run = promisify(execFile);

const [config, ...otherConfigs] = blocksOf("yaml prometheus");
const [rules, ...otherRules] = blocksOf("yaml rules");
assert.ok(config !== undefined && otherConfigs.length === 0);
assert.ok(rules !== undefined && otherRules.length === 0);

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly summary: string;
  readonly labels: Readonly<Record<string, string>>;
}

const oneRule =
  /- alert: (\w+)\n +expr: (.+)\n(?: +for: .+\n)? +labels: \{ severity: (\w+) \}\n +annotations: \{ summary: "(.+)" \}\n/g;
const alerts: Alert[] = [...rules.text.matchAll(oneRule)].map(
  ([, alert = "", expr = "", severity = "", summary = ""]) => ({
    ...{ alert, expr, summary },
    labels: { severity },
  }),
);

test("the rules of the page are those of the file", () => {
  const file = readFileSync(join(root, "deploy/prometheus/codeq-rules.yml"), "utf8");
  const withoutPlace = (text: string): string => text.replace(/^#.*\n/, "");
  assert.equal(withoutPlace(file).trim(), withoutPlace(rules.text).trim());
});

test("the rules ask for metrics and labels that there are", () => {
  const rows = new Map(Object.values(metricTable).map((row) => [row.name as string, row]));
  const asked = alerts.flatMap(({ expr }) => [...expr.matchAll(/(codeq_\w+)(?:\{(\w+)=)?/g)]);
  assert.ok(asked.length > 8);
  assert.equal(alerts.length, rules.text.split("- alert:").length - 1);
  for (const [, name = "", label] of asked) {
    const row = rows.get(name.replace(/_bucket$/, ""));
    assert.ok(row !== undefined, name);
    if (label === undefined) continue;
    assert.ok(row.labels.map((each) => each.name as string).includes(label), `${name} ${label}`);
  }
});

/** Series for each alert with which it is to fire within the hour, one value a minute. */
const trouble: Readonly<Record<string, string | readonly string[]>> = {
  CodeqDown: 'up{job="codeq"} 0x60',
  CodeqRefusesWrites: 'codeq_storage_state{state="ok"} 0x60',
  CodeqQueueWaits: 'codeq_queue_oldest_seconds{command="mail"} 60+60x60',
  CodeqNewDeadLetters: 'codeq_dlq_depth{command="mail"} 0x50 1x10',
  CodeqLeasesExpire: 'codeq_lease_expired_total{command="mail"} 0+2x60',
  CodeqWebhooksFail:
    'codeq_webhook_deliveries_total{kind="task_result",command="mail",outcome="failure"} 0x50 1x10',
  CodeqSlowDisk: [
    'codeq_log_sync_seconds_bucket{le="0.1"} 0x60',
    'codeq_log_sync_seconds_bucket{le="0.25"} 0+10x60',
    'codeq_log_sync_seconds_bucket{le="+Inf"} 0+10x60',
  ],
  CodeqWritesStall: "codeq_write_stall_seconds_total 0+6x60",
  CodeqCompactionsFallBehind: "codeq_lsm_compaction_backlog_bytes 3000000000x60",
  CodeqEventLoopLags: "codeq_event_loop_lag_seconds 0.5x60",
  CodeqQuarantine: "codeq_quarantined_records_total 0x50 1x10",
  CodeqCertificateEnds: "codeq_tls_certificate_expiry_seconds 86400x60",
  CodeqShardWithoutLeader: "codeq_cluster_shards_without_leader 1x60",
  CodeqShardDiverged: "codeq_cluster_shards_diverged 1x60",
  CodeqClusterProblem: "codeq_cluster_shards_with_problems 1x60",
  CodeqNodeDown: "codeq_cluster_log_servers_down 1x60",
  CodeqFollowerBehind: "codeq_cluster_silent_seconds 60+60x60",
  CodeqLeadersChange: "codeq_cluster_epochs 1+1x60",
};

async function setup(t: TestContext): Promise<{ promtool: string; directory: string } | undefined> {
  // Out of the package: it needs 70 MB of others when it is installed.
  const promtool = await debianProgram(t, { program: "promtool", package: "prometheus" });
  if (promtool === undefined) return undefined;
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const write = (name: string, text: string): void =>
    writeFileSync(join(directory.path, name), text.replaceAll("/etc/prometheus", directory.path));
  write("prometheus.yml", config?.text ?? "");
  write("codeq-rules.yml", rules?.text ?? "");
  return { promtool, directory: directory.path };
}

test("promtool finds nothing wrong with the configuration and the rules", async (t) => {
  const world = await setup(t);
  if (world === undefined) return;
  const { promtool, directory } = world;
  const checked = await run(promtool, ["check", "config", join(directory, "prometheus.yml")]);
  assert.match(checked.stdout, new RegExp(`SUCCESS: ${alerts.length} rules found`));
});

test("every alert fires when there is a reason, and none without", async (t) => {
  const world = await setup(t);
  if (world === undefined) return;
  assert.deepEqual(
    Object.keys(trouble),
    alerts.map(({ alert }) => alert),
  );
  const { promtool, directory } = world;
  const tests = alerts.flatMap(({ alert, labels, summary }) => {
    const series = [trouble[alert] ?? []].flat().map((line) => {
      const [, name = "", values = ""] = /^(\S+) (.*)$/.exec(line) ?? [];
      return { series: name, values };
    });
    const { le: _le, ...own } = labelsOf(series[0]?.series ?? "");
    const asked = { eval_time: "55m", alertname: alert };
    const expected = { exp_labels: { ...own, ...labels }, exp_annotations: { summary } };
    const fires = { ...asked, exp_alerts: [expected] };
    return [
      { interval: "1m", input_series: series, alert_rule_test: [fires] },
      { interval: "1m", input_series: [], alert_rule_test: [{ ...asked, exp_alerts: [] }] },
    ];
  });
  const file = join(directory, "tests.yml");
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ rule_files: ["codeq-rules.yml"], tests }));
  const passed = run(promtool, ["test", "rules", file], { cwd: directory });
  await passed.catch((error: { stdout: string; stderr: string }) =>
    assert.fail(error.stdout + error.stderr),
  );
});

interface Dashboard {
  readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
}

test("promtool can read the query of every panel of the dashboard", async (t) => {
  const world = await setup(t);
  if (world === undefined) return;
  const { promtool, directory } = world;
  const text = readFileSync(join(root, "deploy/grafana/codeq.json"), "utf8");
  const queries = (JSON.parse(text) as Dashboard).panels.flatMap(({ targets = [] }) => targets);
  assert.ok(queries.length > 40);
  const asRules = queries.map(({ expr }, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll("$__rate_interval", "5m"),
  }));
  const file = join(directory, "panels.yml");
  writeFileSync(file, JSON.stringify({ groups: [{ name: "panels", rules: asRules }] }));
  const { stdout } = await run(promtool, ["check", "rules", file]);
  assert.match(stdout, new RegExp(`SUCCESS: ${queries.length} rules found`));
});

function labelsOf(series: string): Record<string, string> {
  const pairs = [...series.matchAll(/(\w+)="([^"]*)"/g)];
  return Object.fromEntries(pairs.map(([, name = "", value = ""]) => [name, value]));
}
