/**
 * What it costs to find out who calls and whether they may, as every request pays it: from the
 * Authorization header to an identity. Each call gets a header that no call had before as a string,
 * as it is with headers that were just read from a socket.
 */
import { randomFillSync } from "node:crypto";
import { parseArgs } from "node:util";
import { MemoryKv, MemoryLog } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { type SimAlgorithm, SimIssuer } from "@codeq/simulated";
import type { ProviderConfig } from "../../packages/server/src/config/settings.ts";
import { systemClock as clock } from "../../packages/server/src/core/clock.ts";
import { LocalControl } from "../../packages/server/src/core/control/local-control.ts";
import { Store } from "../../packages/server/src/core/store/store.ts";
import { ApiKeys } from "../../packages/server/src/edge/access/api-keys/api-keys.ts";
import { Authenticator } from "../../packages/server/src/edge/access/authenticator.ts";
import { Providers } from "../../packages/server/src/edge/access/providers.ts";
import { Revocations } from "../../packages/server/src/edge/access/token-provider.ts";
import { AuditTrail } from "../../packages/server/src/edge/audit/audit-trail.ts";
import { Dispatch } from "../../packages/server/src/edge/dispatch.ts";
import { operations } from "../../packages/server/src/start/features.ts";
import { Events } from "../../packages/server/src/telemetry/events.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics } from "../../packages/server/src/telemetry/metrics.ts";

export const accessHelp = `authentication of a request, in process
    --calls 200000             per measurement of tokens that are known
    --verifications 3000       per measurement of tokens that are not
    --tokens 1000              that take turns
    --repeat 3                 measurements per case; the best one is shown`;

type AnyOperation = Parameters<Dispatch["authorize"]>[0];

export async function accessBench(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      calls: { type: "string", default: "200000" },
      verifications: { type: "string", default: "3000" },
      tokens: { type: "string", default: "1000" },
      repeat: { type: "string", default: "3" },
    },
  });
  const tokens = Number(values.tokens);
  const repeat = Number(values.repeat);
  const calls = Number(values.calls);
  console.log("us per request   what is authenticated (the first time: on the clock)");
  const apiKeys = await openApiKeys();
  for (const { name, headers, operation } of [
    ...knownCases(tokens),
    ...(await apiKeyCases(apiKeys, tokens)),
  ]) {
    const dispatch = openDispatch({ headers, apiKeys });
    for (const header of headers) await dispatch.authorize(operation, { authorization: header });
    const sources = headers.map((header) => Buffer.from(header, "latin1"));
    const us = await best(repeat, () => known(dispatch, operation, { sources, calls }));
    print(us, name);
  }
  for (const algorithm of ["EdDSA", "ES256", "RS256", "RS512"] as const) {
    const us = await best(repeat, () => verifications(algorithm, Number(values.verifications)));
    print(us, `signed token (${algorithm}), the first time`);
  }
  const sources = [Buffer.from(`Bearer ${staticToken(0)}`, "latin1")];
  const us = await best(repeat, async () => headersAlone(sources, calls));
  print(us, "nothing: what making the header costs here, and is part of the above");
}

interface KnownCase {
  readonly name: string;
  readonly headers: readonly string[];
  readonly operation: AnyOperation;
}

const issuer = new SimIssuer().addKey("EdDSA").addKey("rs", "RS256");

function knownCases(count: number): readonly KnownCase[] {
  const all = <T>(make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => make(i));
  const statics = all((i) => `Bearer ${staticToken(i)}`);
  const signed = all((i) => `Bearer ${jwt(issuer, i)}`);
  const wrong = all((i) => `Bearer ${staticToken(count + i)}`);
  const near = all((i) => `Bearer ${staticToken(i).slice(0, -1)}!`);
  const { createTask, getTask } = operations;
  return [
    { name: "static token, known", headers: statics, operation: createTask },
    {
      name: "static token, known, on a route for workers and producers",
      headers: statics,
      operation: getTask,
    },
    {
      name: `signed token of ${signed[0]?.length} characters, known`,
      headers: signed,
      operation: createTask,
    },
    {
      name: "static token, wrong from its first character on",
      headers: wrong,
      operation: createTask,
    },
    { name: "static token, wrong in its last character", headers: near, operation: createTask },
  ];
}

async function apiKeyCases(apiKeys: ApiKeys, count: number): Promise<readonly KnownCase[]> {
  const headers: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const created = await apiKeys.create(
      {
        tenantId: "acme" as TenantId,
        name: "bench",
        createdBy: "bench",
        role: "none",
        scopes: ["codeq:create"],
        eventTypes: ["*"],
        expiresMs: undefined,
      },
      () => ({ writes: [], log: () => {} }),
    );
    if (!created.ok) throw new Error(created.code);
    headers.push(`Bearer ${created.value.token}`);
  }
  const mistyped = headers.map((header) => `${header.slice(0, -1)}!`);
  const { createTask } = operations;
  return [
    { name: "API key, known", headers, operation: createTask },
    { name: "API key, mistyped", headers: mistyped, operation: createTask },
  ];
}

async function openApiKeys(): Promise<ApiKeys> {
  const store = await Store.open({
    shards: 1,
    log: new MemoryLog({ writer: 1, epoch: 1, shard: 0 }),
    kv: new MemoryKv(),
    clock,
    observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
    freeBytes: async () => Number.MAX_SAFE_INTEGER,
    defer: (run) => void setImmediate(run),
    minFreeBytes: 0,
    flushBytes: 1 << 30,
    syncIntervalMs: undefined,
  });
  return ApiKeys.open({
    store: new LocalControl(store),
    clock,
    revocations: new Revocations(),
    randomBytes,
  });
}

const randomBytes = (into: Uint8Array): void => void randomFillSync(into);

function staticToken(index: number): string {
  return `${String(index).padStart(8, "0")}-5f1c9d3e7b2a4680c9d1e3f5a7b80c1d2e3f4a5`.slice(0, 40);
}

function jwt(from: SimIssuer, index: number): string {
  const exp = Math.floor(clock.nowMs() / 1000) + 3600;
  const ids = { jti: `${index}-9b2f6c1e-4d3a-4f5b`, azp: "shop", client_id: "shop" };
  return from.token({
    sub: `shop-${index}`,
    aud: "codeq",
    exp,
    iat: exp - 3600,
    ...ids,
    scope: "openid codeq:create",
    tenantId: "acme",
    email: "shop@example.com",
  });
}

function openDispatch(parts: {
  readonly headers: readonly string[];
  readonly apiKeys?: ApiKeys;
  readonly keys?: SimIssuer;
}): Dispatch {
  const { headers, apiKeys, keys = issuer } = parts;
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => 0,
    write: () => {},
  });
  const revocations = new Revocations();
  const providers = new Providers({
    clock,
    logger,
    revocations,
    metrics: createMetrics({ commandsMax: 1 }),
    fetchKeySet: async () => keys.keySet(),
  });
  const authenticator = new Authenticator({
    producers: [
      ...(apiKeys === undefined ? [] : [apiKeys]),
      ...providers.of(configOf(headers, keys)),
    ],
    workers: providers.of([{ type: "static", tokens: [] }]),
    allowProducerAsWorker: false,
    tenantFallback: "subject",
    revocations,
    clock,
  });
  // What is refused is counted in memory, and the store is not reached.
  const audit = new AuditTrail({
    store: undefined as never,
    clock,
    logger,
    randomBytes,
    retentionMs: 0,
  });
  const events = new Events(createMetrics({ commandsMax: 1 }));
  const server = { config: { allowRoleHeader: false }, audit, events } as never;
  // Limits are not part of what is measured.
  return new Dispatch({ server, authenticator, limiter: {} as never, logger });
}

function configOf(headers: readonly string[], keys: SimIssuer): readonly ProviderConfig[] {
  const common = { email: "", subject: "shop", scopes: [], eventTypes: [], raw: {} };
  const tokens = headers.map((_, index) => ({ ...common, token: staticToken(index) }));
  return [
    { type: "static", tokens },
    {
      type: "jwks",
      jwksUrl: "https://id.example.com/keys",
      issuer: keys.issuer,
      audience: "codeq",
      clockSkewMs: 0,
      httpTimeoutMs: 5000,
      refreshMs: 300_000,
      staleMs: 3_600_000,
      refetchMs: 10_000,
    },
  ];
}

const from = { address: "192.0.2.1", requestId: "bench" };

/**
 * Microseconds of processor time per call, which a busy machine does not inflate as it does the time
 * on the clock. Known tokens must not need a turn of the event loop.
 */
async function known(
  dispatch: Dispatch,
  operation: AnyOperation,
  { sources, calls }: { readonly sources: readonly Buffer[]; readonly calls: number },
): Promise<number> {
  const started = process.cpuUsage();
  for (let i = 0; i < calls; i += 1) {
    const authorization = headerOf(sources, i);
    const answer = dispatch.authorize(operation, { authorization, from });
    if (answer instanceof Promise) throw new Error("a known token had to wait");
  }
  return cpuSince(started) / calls;
}

function headersAlone(sources: readonly Buffer[], calls: number): number {
  const started = process.cpuUsage();
  let length = 0;
  for (let i = 0; i < calls; i += 1) length += headerOf(sources, i).length;
  if (length === 0) throw new Error("there were no headers");
  return cpuSince(started) / calls;
}

function cpuSince(started: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(started);
  return user + system;
}

function headerOf(sources: readonly Buffer[], index: number): string {
  return (sources[index % sources.length] as Buffer).toString("latin1");
}

/** Microseconds per token; one after the other, as the latency of one request. */
async function verifications(algorithm: SimAlgorithm, count: number): Promise<number> {
  const keys = new SimIssuer().addKey("key", algorithm);
  const dispatch = openDispatch({ headers: [], keys });
  const headers = Array.from({ length: count + 1 }, (_, index) => `Bearer ${jwt(keys, index)}`);
  const { createTask } = operations;
  await dispatch.authorize(createTask, { authorization: headers[count] });
  const startedMs = performance.now();
  for (const authorization of headers.slice(0, count)) {
    const answer = await dispatch.authorize(createTask, { authorization });
    if (!answer.ok) throw new Error(answer.code);
  }
  return ((performance.now() - startedMs) * 1000) / count;
}

async function best(repeat: number, measure: () => Promise<number>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < repeat; i += 1) least = Math.min(least, await measure());
  return least;
}

function print(us: number, name: string): void {
  console.log(`${us.toFixed(2).padStart(14)}   ${name}`);
}
