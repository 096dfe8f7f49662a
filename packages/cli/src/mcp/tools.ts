/**
 * The tools of `codeq mcp`, each an endpoint of the API. Names, meanings and bounds of their arguments are those of the
 * contract. What changes a task that is leased requires its lease token: an agent that lost its lease changes nothing.
 */
import { api, type Endpoint, type Key, type Shape } from "@codeq/client/command-line";
import { type JsonSchema, schemaOf } from "@codeq/server/command-line";
import { type ApiClient, endpointOf } from "../api/api-client.ts";

type Fields = Readonly<Record<string, Shape>>;

export type Arguments = Readonly<Record<string, unknown>>;

export interface Tool {
  readonly name: string;
  readonly about: string;
  /** It changes nothing. */
  readonly isReading: boolean;
  /** By name. */
  readonly inputs: Fields;
  readonly required: readonly string[];
  readonly run: (given: Arguments, api: ApiClient) => Promise<unknown>;
}

interface ToolRow {
  readonly name: string;
  readonly about: string;
  readonly key: Key;
  /** Some of the inputs of the endpoint; default: all. */
  readonly only?: readonly string[];
  readonly required?: readonly string[];
  /** What the body, or the query of an endpoint without one, always has. */
  readonly fixed?: Arguments;
  /** Shown instead of an empty answer. */
  readonly none?: string;
}

const owned = "leaseToken";

const rows: readonly ToolRow[] = [
  {
    name: "search_tasks",
    key: "GET /admin/tasks",
    about: "Find tasks, newest first. With place=failure, those that failed.",
  },
  { name: "get_task", key: "GET /admin/tasks/:id", about: "Show a task, its payload and result." },
  {
    name: "explain_task",
    key: "GET /admin/tasks/:id/explain",
    about: "Explain why a task is where it is, what is ahead of it, and about when it begins.",
  },
  {
    name: "list_queues",
    key: "GET /admin/queues",
    only: [],
    fixed: { view: "details" },
    about: "List the queues with their depths, ages and rates.",
  },
  {
    name: "group_failures",
    key: "GET /admin/failure-groups",
    about: "Group failures by what their errors have in common, the largest group first.",
  },
  {
    name: "enqueue_task",
    key: "POST /tasks",
    only: [
      "command",
      "payload",
      "priority",
      "delaySeconds",
      "maxAttempts",
      "idempotencyKey",
      "tags",
    ],
    about: "Create a task. With an idempotencyKey, a second call gives the same task.",
  },
  {
    name: "claim_task",
    key: "POST /tasks/claim",
    about:
      "Claim a task to work on. The answer has its id, its payload and a leaseToken, which every later call about the " +
      "task requires. Before the lease ends, call report_progress, or another worker gets the task. At the end call " +
      "complete_task, fail_task or release_task.",
    none: "no task is ready",
  },
  {
    name: "report_progress",
    key: "POST /tasks/:id/heartbeat",
    required: [owned],
    about: "Extend the lease of a claimed task, and report how far the work has come.",
  },
  {
    name: "complete_task",
    key: "POST /tasks/:id/result",
    only: ["result", owned],
    required: ["result", owned],
    fixed: { status: "COMPLETED" },
    about: "Complete a claimed task with its result, a JSON object.",
  },
  {
    name: "fail_task",
    key: "POST /tasks/:id/nack",
    required: ["reason", owned],
    about:
      "Report that this attempt failed. The server retries the task, or makes it a dead letter.",
  },
  {
    name: "release_task",
    key: "POST /tasks/:id/abandon",
    only: [owned],
    required: [owned],
    fixed: { interrupted: true },
    about: "Give a claimed task back without counting an attempt, so that another worker gets it.",
  },
];

export const tools: readonly Tool[] = [...rows.map(toolOf), replayTool()];

function toolOf(row: ToolRow): Tool {
  const { name, about, key, only, required = [], fixed = {}, none } = row;
  const endpoint = endpointOf(key) as Endpoint;
  const { params = {} } = endpoint;
  const chosen = (fields: Fields = {}): Fields =>
    Object.fromEntries(Object.entries(fields).filter(([field]) => only?.includes(field) ?? true));
  const [query, body] = [chosen(endpoint.query), chosen(endpoint.body?.fields)];
  const inputs = { ...params, ...query, ...body };
  const must = Object.entries(inputs).filter(
    ([, { isRequired, isFilled }]) => isRequired ?? isFilled,
  );
  return {
    name,
    about,
    isReading: key.startsWith("GET "),
    inputs,
    required: [...new Set([...Object.keys(params), ...must.map(([field]) => field), ...required])],
    run: async (given, client) => {
      const part = (of: object): Arguments =>
        Object.fromEntries(Object.entries(given).filter(([field]) => Object.hasOwn(of, field)));
      const request = {
        params: part(params),
        query: { ...part(query), ...(endpoint.body ? {} : fixed) },
        ...(endpoint.body && { body: { ...part(body), ...fixed } }),
      };
      const { value } = await client.call(key, request as never, { waitMs: waitMsOf(given) });
      return value ?? { note: none };
    },
  };
}

function waitMsOf({ waitSeconds }: Arguments): number {
  return typeof waitSeconds === "number" ? waitSeconds * 1000 : 0;
}

const replay = "POST /admin/dead-letters/replay";
/** Dry runs whose replay may follow. */
const dryRunsMax = 100;

/** The first call only counts; the second one names the first, and has to ask for the same. */
function replayTool(): Tool {
  const { dryRun: _dryRun, ...conditions } = api.deadLetters.replayDeadLetters.body.fields;
  const dryRuns = new Map<string, string>();
  const confirm: Shape = {
    ...api.taskAdmin.inspectTask.params.id,
    about:
      "What the dry run answered as `confirm`. Without it, this is a dry run, which changes nothing.",
  };
  return {
    name: "replay_dead_letters",
    about:
      "Replay dead letters and failed tasks, by ids or by a filter. The first call is a dry run: it counts them and " +
      "answers with a `confirm`. Replay them with a second call that has the same arguments and this `confirm`.",
    isReading: false,
    inputs: { ...conditions, confirm },
    required: [],
    run: async ({ confirm: given, ...filter }, client) => {
      const asked = JSON.stringify(Object.entries(filter).sort());
      if (given === undefined) {
        const { value } = await client.call(replay, { body: { ...filter, dryRun: true } });
        const token = `dry-run-${dryRuns.size + 1}`;
        if (dryRuns.size < dryRunsMax) dryRuns.set(token, asked);
        return { ...value, isDryRun: true, confirm: token };
      }
      if (dryRuns.get(String(given)) !== asked) {
        throw new Error(
          "no dry run with these arguments has this confirm; call without confirm first",
        );
      }
      dryRuns.set(String(given), "");
      return (await client.call(replay, { body: filter })).value;
    },
  };
}

/** What a model sees of the arguments. */
export function inputSchema({ inputs, required }: Tool): JsonSchema {
  const shapes = Object.entries(inputs).map(([name, shape]): [string, JsonSchema] => {
    const { type, ...schema } = schemaOf(shape, "body");
    const types = Array.isArray(type) ? type.filter((each) => each !== "null") : [type];
    const values = shape.kind === "text" && shape.oneOf ? { enum: [...shape.oneOf] } : {};
    const kind = types[0] === undefined ? {} : { type: types.length === 1 ? types[0] : types };
    return [name, { ...kind, ...schema, ...values }];
  });
  const fields = Object.fromEntries(shapes);
  return { type: "object", ["properties"]: fields, required, additionalProperties: false };
}

/** What is wrong with the arguments; the server looks at their values. */
export function problemOf({ inputs, required }: Tool, given: Arguments): string | undefined {
  const missing = required.filter((name) => given[name] === undefined);
  if (missing.length > 0) return `missing: ${missing.join(", ")}`;
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(inputs, name));
  if (unknown.length === 0) return undefined;
  return `unknown: ${unknown.join(", ")}; the arguments are ${Object.keys(inputs).join(", ")}`;
}
