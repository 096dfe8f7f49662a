/**
 * The manual pages, made from the tables that the server itself runs on. A page says that it is
 * generated and how; a test compares it with what the tables give today.
 */
import {
  type CommandGroup,
  type CommandRow,
  groupTitles,
  type OptionRow,
  usageOf,
} from "../packages/cli/src/command.ts";
import { commandTable } from "../packages/cli/src/command-table.ts";
import { exitCodes } from "../packages/cli/src/exit-codes.ts";
import { leftOf } from "../packages/cli/src/help.ts";
import { connection, everywhere } from "../packages/cli/src/shared-options.ts";
import { errors } from "../packages/protocol/src/errors.ts";
import { inactiveSettings } from "../packages/server/src/config/go-settings.ts";
import {
  envNamesOf,
  flagOf,
  rowOf,
  settingNames,
} from "../packages/server/src/config/setting-table.ts";
import { queryOf } from "../packages/server/src/edge/http/calls.ts";
import type { JsonSchema } from "../packages/server/src/edge/http/contract/contract-schema.ts";
import {
  callersOf,
  ofEveryRoute,
  refusalsOf,
  replySchemas,
} from "../packages/server/src/edge/http/contract/openapi.ts";
import type { AnyRoute } from "../packages/server/src/edge/http/route.ts";
import { routes } from "../packages/server/src/start/features.ts";
import { metricTable } from "../packages/server/src/telemetry/metrics.ts";
import type { MetricRow } from "../packages/server/src/telemetry/registry.ts";
import { agentsText, llmsText } from "./agent-pages.ts";
import { apiTypes, apiTypesPath } from "./api-types.ts";

/** Path from the root of the repository -> contents. */
export function manualPages(): ReadonlyMap<string, string> {
  return new Map([
    ["docs/reference/config.md", configPage()],
    ["docs/reference/metrics.md", metricsPage()],
    ["docs/reference/errors.md", errorsPage()],
    ["docs/reference/cli.md", cliPage()],
    ["docs/reference/http.md", httpPage()],
    [apiTypesPath, apiTypes()],
    ["docs/llms.txt", llmsText()],
    ["docs/AGENTS.md", agentsText()],
  ]);
}

function configPage(): string {
  const rows = settingNames.map((name) => {
    const row = rowOf(name);
    const unit = row.unit === undefined ? "" : `, ${row.unit}`;
    const initial = row.initialInWords ?? code(String(row.initial));
    const variables = envNamesOf(name, row.env).map(code).join(" ");
    const about = row.secret === true ? `${row.about} Never printed.` : row.about;
    return [
      code(name),
      code(flagOf(name)),
      variables,
      `${row.parser.accepts}${unit}`,
      initial,
      about,
    ];
  });
  const inactive = inactiveSettings.map((row) => [
    code(row.name),
    envNamesOf(row.name, row.env).map(code).join(" "),
    row.isRefusedWhenOn ? "refused when on" : "a warning",
  ]);
  return page("Configuration", "packages/server/src/config/setting-table.ts", [
    "Flags override environment variables, which override the YAML file, which overrides the defaults.",
    "`--config` or `CODEQ_CONFIG_PATH` names the file, which must exist. If a setting has several",
    "environment variables, the first one that is set is used; an empty variable counts as not set. If",
    "a key or flag is unknown or a value is invalid, the server lists all problems and does not start.",
    "A setting that is never printed can also be read from a file, such as a mounted secret: add `_FILE` to",
    "its first environment variable, for example `CODEQ_S3_SECRET_ACCESS_KEY_FILE=/run/secrets/s3-key`.",
    "",
    "Without any configuration, the server listens on this machine only, stores its data in `./data`,",
    "and accepts `dev-token` from producers and workers of the tenant `dev-tenant`. If `env` is not",
    "`dev`, tokens and a webhook secret are required.",
    "",
    table(["key", "flag", "environment", "value", "default", "meaning"], rows),
    "",
    "## Tokens",
    "",
    "`producerAuthConfig` and `workerAuthConfig` take tokens, an identity server or several providers,",
    "as a map in the file or as JSON text; see [Access](../guide/access.md). A token is text, an",
    "object with these fields, or a list of such objects:",
    "",
    tokenFields(),
    "",
    "## Settings of the Go server without effect",
    "",
    "The server accepts these settings so that existing files load. The warning names what to use instead.",
    "",
    table(["key", "environment", "when set"], inactive),
  ]);
}

function tokenFields(): string {
  return table(
    ["field", "default", "meaning"],
    [
      [code("token"), "required", "The bearer token."],
      [
        code("subject"),
        code("static"),
        "The subject of the token; also the tenant if no claim names one.",
      ],
      [code("tenant"), "none", "Short for `tenantId` in `raw`."],
      [code("email"), "empty", "For information only."],
      [
        code("scopes"),
        "none",
        "`codeq:create`, `codeq:claim`, `codeq:heartbeat`, and so on; `codeq:admin`, `codeq:operator`.",
      ],
      [
        code("eventTypes"),
        "none",
        'Commands that a worker may claim or a producer may create; `["*"]` for all.',
      ],
      [code("roles"), "none", "`admin` (of its tenant) or `operator` (of all tenants)."],
      [code("raw"), "empty", "Further claims, such as `commands` and `exp`."],
    ],
  );
}

function metricsPage(): string {
  const metrics: MetricRow[] = Object.values(metricTable);
  const rows = metrics.map((row) => [
    code(row.name),
    row.type,
    row.labels.map(labelText).join("; ") || "none",
    row.buckets === undefined ? row.help : `${row.help} Buckets: ${row.buckets.join(" ")}.`,
  ]);
  return page("Metrics", "packages/server/src/telemetry/metrics.ts", [
    "`GET /metrics` returns all metrics in the Prometheus text format 0.0.4. Up to `metricsCommandsMax`",
    "commands have their own metrics; all others are counted together as `_other`.",
    "",
    "With several shards, the numbers are totals over all shards. Metrics about a single store",
    "(`codeq_commit_group_*`, `codeq_log_*`, `codeq_overlay_*`, `codeq_flush_*`,",
    "`codeq_lsm_*`, `codeq_write_amplification`, `codeq_storage_state`, `codeq_ready_window_*`) have the",
    "label `shard`: the number of the shard, or `control` for the store of API keys and audit",
    "records. A shard that does not respond is missing from the totals.",
    "",
    table(["name", "type", "labels", "meaning"], rows),
    "",
    "## Limits of LevelDB",
    "",
    "The store is LevelDB, which does not report some numbers that other stores report:",
    "",
    "- The size of the block cache alone. `codeq_lsm_memory_bytes` is the cache and the write buffers;",
    "  `codeq_lsm_buffer_bytes` is the data of the write buffers, from the size of LevelDB's own log, and",
    "  `codeq_lsm_cache_max_bytes` is the maximum size of the cache.",
    "- Hits and misses of the block cache, and the actual number of files per read.",
    "  `codeq_lsm_read_amplification` is the maximum.",
    "- How long LevelDB delayed a write. `codeq_lsm_stalls_total` counts the times that a write waited, and the flush waits",
    "  for the write, so this time is part of `codeq_flush_seconds`; commits wait only when the flush takes so long that",
    "  `codeq_write_stalls_total` rises.",
    "- Sizes in bytes. LevelDB rounds sizes to mebibytes, so metrics computed from them are rounded as well.",
  ]);
}

function labelText(label: MetricRow["labels"][number]): string {
  if (label.values === undefined) return code(label.name);
  return `${code(label.name)} (${label.values.join(", ")})`;
}

function errorsPage(): string {
  const rows = Object.entries(errors).map(([name, row]) => [
    code(name),
    String(row.http),
    row.grpc,
    row.retryable ? "yes" : "no",
    row.text,
  ]);
  return page("Errors", "packages/protocol/src/errors.ts", [
    "Branch on the code, which never changes; the text can be more specific than in this table.",
    "Retryable means that the same request may succeed later.",
    "",
    table(["code", "HTTP", "gRPC", "retryable", "text"], rows),
  ]);
}

function httpPage(): string {
  return page(
    "HTTP API",
    "packages/protocol/src/api and the routes in packages/server/src/features",
    [
      "This page lists every route with its parameters and answers. A running server has the same as an",
      "OpenAPI 3.1 document at `/openapi.json`.",
      "",
      "Bodies are JSON objects. The server refuses unknown fields and query parameters and values of a",
      "wrong type with 400 and names them; `null` is the same as omitting a field. With the setting",
      "`lenientInput`, the server ignores unknown fields, for old clients. Answers may get further fields",
      "in later versions; ignore fields that you do not know.",
      "",
      'An error is `{"error":"..."}` with its code in the header `codeq-error`; each of',
      "[the errors](errors.md) has one status. Every route with a token can return",
      `${ofEveryRoute.map(code).join(", ")}; the routes list further codes.`,
      "",
      ...routes.flatMap(routeSection),
      "## Answers",
      "",
      "Fields marked with a star are always present.",
      "",
      ...Object.entries(replySchemas).flatMap(schemaSection),
    ],
  );
}

function routeSection(each: AnyRoute): string[] {
  const own = refusalsOf(each).filter((name) => !ofEveryRoute.includes(name));
  const replies = Object.entries(each.replies).map(([status, { about, schema }]) => {
    const shape = schema === undefined ? "" : ` [${schema}](#${schema.toLowerCase()})`;
    return `- ${status}:${shape} ${about}`;
  });
  return [
    `## ${each.method} ${each.path}`,
    "",
    `${each.summary}. ${each.about === undefined ? "" : `${each.about} `}For ${callersOf(each)}.`,
    "",
    ...parameterTable("path", pathRows(each)),
    ...parameterTable("query", queryRows(each)),
    ...(each.body === undefined ? [] : parameterTable("body", fieldRows(each.body.schema))),
    ...replies,
    ...(own.length === 0 ? [] : [`- refused with ${own.map(code).join(", ")}`]),
    "",
  ];
}

function parameterTable(title: string, rows: readonly string[][]): string[] {
  return rows.length === 0 ? [] : [table([title, "type", "meaning"], rows), ""];
}

function pathRows({ params = {} }: AnyRoute): string[][] {
  return Object.entries(params).map(([name, { about }]) => [code(name), "string", about]);
}

function queryRows(each: AnyRoute): string[][] {
  return Object.entries(queryOf(each)).map(([name, { schema, about }]) => [
    code(name),
    typeText(schema),
    about,
  ]);
}

function schemaSection([name, schema]: [string, JsonSchema]): string[] {
  const rows = fieldRows(schema);
  const about = String(schema["description"] ?? "");
  return [
    `### ${name}`,
    "",
    ...(about === "" ? [] : [about, ""]),
    ...parameterTable("field", rows),
  ];
}

function fieldRows(schema: JsonSchema): string[][] {
  const properties = (schema["properties"] ?? {}) as Readonly<Record<string, JsonSchema>>;
  const required = (schema["required"] ?? []) as readonly string[];
  return Object.entries(properties).map(([name, each]) => [
    `${code(name)}${required.includes(name) ? " *" : ""}`,
    typeText(each),
    `${String(each["description"] ?? "")}${boundsText(each)}`.trim(),
  ]);
}

/** `["string", "null"]` is `string`; a reference is the name that it leads to. */
function typeText(schema: JsonSchema): string {
  const { $ref, type, items, enum: values, const: only } = schema;
  if (typeof $ref === "string") return $ref.slice($ref.lastIndexOf("/") + 1);
  if (only !== undefined) return code(String(only));
  if (Array.isArray(values)) return values.length > 8 ? "string" : values.map(code).join(", ");
  const [name] = Array.isArray(type) ? type : [type];
  if (name === "array") return `array of ${typeText((items ?? {}) as JsonSchema)}`;
  if (name === undefined) return schema["oneOf"] === undefined ? "any value" : "object";
  return schema["format"] === "date-time" ? "RFC 3339 time" : String(name);
}

function boundsText({ minimum, maximum, maxLength, maxItems }: JsonSchema): string {
  const words = [
    minimum === undefined ? "" : `at least ${String(minimum)}`,
    maximum === undefined ? "" : `at most ${String(maximum)}`,
    maxLength === undefined ? "" : `at most ${String(maxLength)} characters`,
    maxItems === undefined ? "" : `at most ${String(maxItems)} items`,
  ].filter((word) => word !== "");
  return words.length === 0 ? "" : ` (${words.join(", ")})`;
}

function cliPage(): string {
  const groups = (Object.keys(groupTitles) as CommandGroup[]).flatMap((group) => {
    const rows = commandTable.filter((row) => row.group === group);
    return ["", `## ${groupTitles[group]}`, ...rows.flatMap(commandLines)];
  });
  const codes = Object.values(exitCodes).map(({ code: number, about }) => [String(number), about]);
  return page("Command line", "packages/cli/src/command-table.ts", [
    "The form of a command is `codeq <command> [options]`. Options can be placed before or after the command. The result",
    "goes to the standard output, everything else to the standard error. With `--json`, the",
    'result is JSON, and an error is `{"error":{"code","message","next","status","serverCode",',
    '"exitCode"}}` on the standard error; `status` and [`serverCode`](errors.md) come from the server.',
    "[The guide](../guide/command-line.md) has examples.",
    ...groups,
    "",
    "## Options of all commands",
    "",
    optionTable(everywhere),
    "",
    "## Server and token",
    "",
    "Commands that connect to a server have these options. An option overrides its environment variable, which overrides",
    "the profile: a set of options in `~/.codeq/config.yaml` or in `config.yaml` of `$CODEQ_CONFIG_DIR`.",
    "",
    optionTable(connection),
    "",
    "## Exit codes",
    "",
    "`serve` and `dev` exit with the exit code of the server.",
    "",
    table(["code", "meaning"], codes),
  ]);
}

function commandLines(row: CommandRow): string[] {
  const words = [...(row.arguments ?? []), ...(row.behind === undefined ? [] : [row.behind])];
  const own = row.options ?? [];
  const listed = words.map(({ name, about }) => `- ${code(name)}: ${about}`);
  const examples = (row.examples ?? []).flatMap(({ line, about }) => [
    `# ${about}`,
    `codeq ${line}`,
  ]);
  const notes = [
    ...(row.serverFlags === undefined ? [] : ["all [settings of the server](config.md)"]),
    ...(row.connects === undefined ? [] : ["[server and token options](#server-and-token)"]),
  ];
  return [
    "",
    `### ${row.name}`,
    "",
    `${code(`codeq ${usageOf(row)}`)}`,
    "",
    [row.about, ...(row.details ?? [])].join("\n"),
    ...(listed.length === 0 ? [] : ["", ...listed]),
    ...(own.length === 0 ? [] : ["", optionTable(own)]),
    ...(notes.length === 0 ? [] : ["", `Further options: ${notes.join(", ")}.`]),
    ...(examples.length === 0 ? [] : ["", "```sh", ...examples, "```"]),
  ];
}

function optionTable(options: readonly OptionRow[]): string {
  const hasVariables = options.some(({ env }) => env !== undefined);
  const rows = options.map((option) => {
    const { choices, about, env } = option;
    const values = choices === undefined ? "" : ` One of ${choices.map(code).join(", ")}.`;
    const variable = hasVariables ? [env === undefined ? "" : code(env)] : [];
    return [code(leftOf(option)), ...variable, about + values];
  });
  return table(["option", ...(hasVariables ? ["environment"] : []), "meaning"], rows);
}

function page(title: string, source: string, body: readonly string[]): string {
  const note = `<!-- Generated from ${source} by \`npm run gen\`; edit that file instead. -->`;
  return `${[`# ${title}`, "", note, "", ...body].join("\n")}\n`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${" --- |".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

function code(text: string): string {
  return `\`${text}\``;
}
