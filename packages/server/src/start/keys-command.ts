/**
 * `keys create|list|revoke` on a data directory that no server uses: for the first key of an operator, or
 * when all keys are lost. It does what the REST API does, and everything is durable before anything is
 * printed. Prints one JSON object per line.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { FaultError } from "@codeq/engine";
import { ApiKey, CreatedApiKey } from "@codeq/protocol/api";
import type { TenantId, WorkerId } from "@codeq/queue";
import type { LoadedConfig } from "../config/load.ts";
import type { Config } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { LocalControl } from "../core/control/local-control.ts";
import type { RandomBytes } from "../core/task-ids.ts";
import { parseInstant, Timestamps } from "../core/timestamps.ts";
import { ApiKeys, type KnownApiKey } from "../edge/access/api-keys/api-keys.ts";
import { everyTenant, type Identity, isTenantId } from "../edge/access/identity.ts";
import { neverRevoked, Revocations } from "../edge/access/token-provider.ts";
import { AuditTrail } from "../edge/audit/audit-trail.ts";
import { writerOf } from "../edge/http/contract/contract-route.ts";
import { JsonCodec } from "../edge/http/json-codec.ts";
import type { Answer } from "../edge/operation.ts";
import {
  apiKeyShown,
  createApiKey,
  endApiKey,
  makeApiKey,
} from "../features/api-keys/operations.ts";
import { createLogger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { openDataDir } from "./open-data-dir.ts";
import { openStore } from "./shards/open-shard.ts";

export interface KeysCommandParts {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly loadConfig: (argv: readonly string[]) => LoadedConfig;
}

export interface CommandEnd {
  readonly code: number;
  readonly output: string;
  /** Empty when there is none. */
  readonly problem: string;
}

const exitCodes = { refused: 1, usage: 2, locked: 3, data: 4 } as const;

const ownFlags = [
  ...["tenant", "name", "scopes", "event-types", "role"],
  ...["expires-at", "expires-in-seconds"],
] as const;
type OwnFlag = (typeof ownFlags)[number];

const usage = `usage, while the server is stopped:
  keys create --tenant T --name N [--scopes a,b] [--event-types x,y] [--role viewer|admin|operator]
              [--expires-at TIME | --expires-in-seconds S]
  keys list   [--tenant T]
  keys revoke ID
and the flags of the server that say where its data is, such as --data-dir or --config
`;

export async function runKeysCommand(
  argv: readonly string[],
  parts: KeysCommandParts,
): Promise<CommandEnd> {
  const [verb = "", ...others] = argv;
  if (verb === "" || verb === "--help" || verb === "-h") return printed(usage);
  const { flags, id, rest } = splitArguments(others);
  const loaded = parts.loadConfig(rest);
  if (!loaded.ok) return ended(exitCodes.usage, loaded.problems.join("\n"));
  const command = { flags, id, config: loaded.config, parts };
  try {
    switch (verb) {
      case "create":
        return await create(command);
      case "list":
        return await list(command);
      case "revoke":
        return await revoke(command);
      default:
        return ended(exitCodes.usage, `unknown command: keys ${verb}\n${usage}`);
    }
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    return onFault(error);
  }
}

interface Command {
  readonly flags: ReadonlyMap<OwnFlag, string>;
  /** The argument that belongs to no flag. */
  readonly id: string;
  readonly config: Config;
  readonly parts: KeysCommandParts;
}

async function create({ flags, config, parts }: Command): Promise<CommandEnd> {
  const tenant = flags.get("tenant") ?? "";
  if (!isTenantId(tenant))
    return ended(exitCodes.usage, `--tenant is missing or invalid\n${usage}`);
  const input = {
    name: flags.get("name") ?? "",
    scopes: listIn(flags.get("scopes")),
    eventTypes: listIn(flags.get("event-types")),
    role: flags.get("role") || "none",
    expiresMs: instantIn(flags.get("expires-at")),
    expiresInSeconds: Number(flags.get("expires-in-seconds") ?? 0),
  };
  return withApiKeys(config, parts, async (opened) => {
    const server = { ...opened, clock: parts.clock };
    const call = { identity: operatorIn(tenant) };
    const made = createApiKey.problemOf(input) ?? (await makeApiKey(server, call, input));
    return answered(made, ({ key, token }) => writeCreated({ ...key, token }, codecOf(config)));
  });
}

async function list({ flags, config, parts }: Command): Promise<CommandEnd> {
  const tenant = flags.get("tenant");
  if (tenant !== undefined && !isTenantId(tenant))
    return ended(exitCodes.usage, "invalid --tenant");
  if (!hasData(config)) return noData(config);
  return withApiKeys(config, parts, async ({ apiKeys }) => {
    const codec = codecOf(config);
    let lines = "";
    for await (const known of allKeys(apiKeys, tenant)) {
      lines += `${writeKey(apiKeyShown(known), codec)}\n`;
    }
    return printed(lines);
  });
}

async function revoke({ id, config, parts }: Command): Promise<CommandEnd> {
  if (id === "") return ended(exitCodes.usage, `the id of a key is needed\n${usage}`);
  if (!hasData(config)) return noData(config);
  return withApiKeys(config, parts, async (opened) => {
    const call = { identity: operatorIn(everyTenant) };
    const gone = await endApiKey(opened, call, { id });
    return answered(gone, (key) => writeKey(key, codecOf(config)));
  });
}

async function* allKeys(
  apiKeys: ApiKeys,
  tenantId: TenantId | undefined,
): AsyncGenerator<KnownApiKey> {
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await apiKeys.list({ tenantId, after, limit: 1000 });
    yield* page.keys;
    after = page.next;
  }
}

/** A user who can write the files is an operator. */
function operatorIn(tenantId: TenantId): Identity {
  return {
    subject: "offline",
    workerId: "offline" as WorkerId,
    tenantId,
    homeTenantId: "" as TenantId,
    scopes: new Set(),
    eventTypes: [],
    creates: undefined,
    isViewer: true,
    hidesPayloads: false,
    isAdmin: true,
    isOperator: true,
    hasRole: true,
    expiresMs: undefined,
    issuedBy: "data directory",
    isRevoked: neverRevoked,
  };
}

function splitArguments(argv: readonly string[]): {
  flags: Map<OwnFlag, string>;
  id: string;
  rest: string[];
} {
  const flags = new Map<OwnFlag, string>();
  const rest = [...argv];
  const id = rest[0]?.startsWith("-") === false ? (rest.shift() ?? "") : "";
  for (let at = 0; at < rest.length; ) {
    const [name = "", ...value] = (rest[at] ?? "").split("=");
    const flag = ownFlags.find((each) => name === `--${each}`);
    if (flag === undefined) {
      at += 1;
      continue;
    }
    const taken = rest.splice(at, value.length === 0 ? 2 : 1);
    flags.set(flag, value.length === 0 ? (taken[1] ?? "") : value.join("="));
  }
  return { flags, id, rest };
}

function listIn(text = ""): string[] {
  return text === "" ? [] : text.split(",");
}

function instantIn(text = ""): number | undefined {
  return text === "" ? undefined : (parseInstant(text) ?? Number.NaN);
}

const writeKey = writerOf(ApiKey);
const writeCreated = writerOf(CreatedApiKey);

function codecOf({ timezone }: Config): JsonCodec {
  return new JsonCodec(new Timestamps(timezone));
}

function answered<T>(answer: Answer<T>, line: (value: T) => string): CommandEnd {
  return answer.ok ? printed(`${line(answer.value)}\n`) : ended(exitCodes.refused, answer.text);
}

function hasData({ dataDir, persistenceProvider }: Config): boolean {
  return persistenceProvider === "embedded" && existsSync(join(dataDir, "kv"));
}

function noData({ dataDir }: Config): CommandEnd {
  const text = `there is no data in ${resolve(dataDir)}; set the data directory with --data-dir`;
  return ended(exitCodes.data, text);
}

function onFault(fault: FaultError): CommandEnd {
  if (fault.code !== "locked") return ended(exitCodes.data, fault.message);
  const text =
    "a server is using this data directory; manage its keys over HTTP " +
    "(codeq key, /v1/codeq/admin/keys), or stop the server first";
  return ended(exitCodes.locked, text);
}

function printed(output: string): CommandEnd {
  return { code: 0, output, problem: "" };
}

function ended(code: number, problem: string): CommandEnd {
  return { code, output: "", problem };
}

/** Opens the API keys of a data directory, without any other part of the server, and closes them. */
export async function withApiKeys<T>(
  config: Config,
  parts: { readonly clock: Clock; readonly randomBytes: RandomBytes },
  use: (opened: { readonly apiKeys: ApiKeys; readonly audit: AuditTrail }) => Promise<T>,
): Promise<T> {
  if (config.persistenceProvider === "memory") {
    throw new FaultError("format", "persistenceProvider is memory, so there is no data directory");
  }
  const { clock, randomBytes } = parts;
  // What it has to say comes back as a fault.
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: () => {},
  });
  const metrics = createMetrics({ commandsMax: 1 });
  const storage = await openDataDir(config, { clock, metrics, logger });
  const store = await openStore({
    config,
    clock,
    logger,
    metrics,
    storage,
    defer: (run) => void setImmediate(run),
    onState: () => {},
  });
  try {
    const revocations = new Revocations();
    const retentionMs = config.auditRetentionSeconds * 1000;
    const control = new LocalControl(store);
    const audit = new AuditTrail({ store: control, clock, logger, randomBytes, retentionMs });
    const apiKeys = await ApiKeys.open({ store: control, clock, revocations, randomBytes });
    return await use({ apiKeys, audit });
  } finally {
    await store[Symbol.asyncDispose]();
  }
}
