/** What a seed decides before anything happens: the server's settings and how rough the world is. */
import type { SimRandom } from "@codeq/simulated";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import {
  noQuotas,
  type Quotas,
  type TenantQuota,
} from "../../packages/server/src/config/quotas.ts";
import type { Config, StaticTokenConfig } from "../../packages/server/src/config/settings.ts";

export interface Plan {
  readonly config: Config;
  readonly segmentBytes: number;
  readonly flushBytes: number;
  readonly delayedInMemoryMax: number;
  /** Room for ready tasks in memory, over all queues. */
  readonly windowEntries: number;
  /** Chance of a fault in a step. */
  readonly faultChance: number;
  /** Which kinds of faults happen; a quiet kind never does. */
  readonly faultWeights: Readonly<Record<FaultKind, number>>;
  /** Chance that nothing runs for a while, in a step. */
  readonly stallChance: number;
  /** Share of disk operations that take time. */
  readonly latencyChance: number;
  /** Above this many open tasks producers hold back. */
  readonly backlogMax: number;
  readonly clientsPerStep: number;
}

export const faultKinds = [
  "crash",
  "restart",
  "wall-step",
  "disk-full",
  "kv-full",
  "failed-write",
  "failed-sync",
  "failed-kv",
  "slow-disk",
  "webhook-target",
] as const;
export type FaultKind = (typeof faultKinds)[number];

const durabilities: readonly Config["durability"][] = ["fsync", "interval", "os"];
const backoffs: readonly Config["backoffPolicy"][] = [
  "fixed",
  "linear",
  "exponential",
  "exp_equal_jitter",
  "exp_full_jitter",
];

export function planFor(random: SimRandom, durability: Config["durability"] | undefined): Plan {
  const drawn = random.pick(durabilities);
  const calm = random.next() < 0.15;
  const plan: Plan = {
    config: configFor(random, durability ?? drawn),
    segmentBytes: random.pick([2048, 4096, 16_384]),
    flushBytes: random.pick([3000, 20_000, 100_000]),
    delayedInMemoryMax: random.pick([2, 30, 1000]),
    windowEntries: random.pick([3, 10, 1000]),
    faultChance: calm ? 0.002 : random.pick([0.01, 0.03, 0.06]),
    faultWeights: weights(random),
    stallChance: random.fork("stalls").pick([0, 0, 0.003, 0.01]),
    latencyChance: random.pick([0.05, 0.3, 0.8]),
    backlogMax: random.pick([10, 40, 120]),
    clientsPerStep: random.pick([1, 2, 4]),
  };
  return { ...plan, config: { ...plan.config, quotas: quotasFor(random) } };
}

/** Half of the servers have quotas, which leave one tenant alone. */
function quotasFor(random: SimRandom): Quotas {
  const all = Number.POSITIVE_INFINITY;
  if (random.next() < 0.5) return noQuotas;
  const drawn = (): TenantQuota => ({
    pendingTasks: random.pick([5, 20, all]),
    storedBytes: random.pick([1500, 10_000, all]),
    requestsPerSecond: random.pick([20, all]),
    concurrentLeases: random.pick([1, 3, 10, all]),
    queues: all,
    lanes: all,
  });
  const tenants = new Map([["acme", drawn()]]);
  return { default: drawn(), tenants: tenants.set("globex", noQuotas.default) };
}

function weights(random: SimRandom): Record<FaultKind, number> {
  const found = {} as Record<FaultKind, number>;
  for (const kind of faultKinds) found[kind] = random.next() < 0.3 ? 0 : random.next();
  found.crash += 0.5;
  return found;
}

const defaults = ((): Config => {
  const auth = JSON.stringify([{ token: "unused", subject: "unused" }]);
  const loaded = loadConfig({
    argv: [],
    env: { PRODUCER_AUTH_CONFIG: auth, WORKER_AUTH_CONFIG: auth },
    readFile: () => "",
  });
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  return loaded.config;
})();

const tenants = ["acme", "globex", "initech"] as const;
/** The same three queues in several spellings. */
export const commands = ["render", "Render", "email", "EMAIL", "sync.users"] as const;

export interface Caller {
  readonly tenant: string;
  readonly subject: string;
  readonly token: string;
}

export const producers: readonly Caller[] = tenants.map((tenant) => caller(tenant, "producer"));
export const admins: readonly Caller[] = tenants.map((tenant) => caller(tenant, "admin"));
/** Two for everything, one for some commands, one that may only claim. */
export const workers: readonly Caller[] = tenants.flatMap((tenant) =>
  ["worker-1", "worker-2", "picky", "claimer"].map((name) => caller(tenant, name)),
);

function caller(tenant: string, name: string): Caller {
  return { tenant, subject: `${tenant}-${name}`, token: `token-of-${tenant}-${name}` };
}

function tokenOf(of: Caller, rest: Partial<StaticTokenConfig>): StaticTokenConfig {
  const { token, subject, tenant } = of;
  const raw = { tenantId: tenant, ...rest.raw };
  return { token, subject, email: "", scopes: [], eventTypes: [], ...rest, raw };
}

const workerScopes = ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack"];

function workerToken(of: Caller): StaticTokenConfig {
  const isPicky = of.subject.endsWith("picky");
  const isClaimer = of.subject.endsWith("claimer");
  return tokenOf(of, {
    scopes: isClaimer ? ["codeq:claim"] : [...workerScopes, "codeq:result", "codeq:subscribe"],
    eventTypes: isPicky ? ["Email", "sync.users"] : ["*"],
  });
}

/** Also what the checkers know the tenants by. */
export const producerTokens: readonly StaticTokenConfig[] = [
  ...producers.map((of) => tokenOf(of, {})),
  ...admins.map((of) => tokenOf(of, { raw: { role: "ADMIN" } })),
];

function configFor(random: SimRandom, durability: Config["durability"]): Config {
  return {
    ...defaults,
    durability,
    syncIntervalMs: random.pick([20, 100, 500]),
    minFreeDiskBytes: 1,
    artifactSweepSeconds: 60,
    retentionSeconds: random.pick([30, 120, 3600]),
    dlqRetentionSeconds: random.pick([0, 20, 600]),
    idempotencySeconds: random.fork("keys").pick([0, 60, 604_800]),
    producerAuth: [{ type: "static", tokens: producerTokens }],
    workerAuth: [{ type: "static", tokens: workers.map(workerToken) }],
    allowProducerAsWorker: random.next() < 0.2,
    defaultLeaseSeconds: random.pick([2, 6, 20]),
    maxAttemptsDefault: random.pick([1, 2, 4]),
    backoffPolicy: random.pick(backoffs),
    backoffBaseSeconds: random.pick([1, 2]),
    backoffMaxSeconds: random.pick([1, 4, 10]),
    resultWebhookMaxAttempts: 1000,
    resultWebhookBaseBackoffSeconds: 1,
    resultWebhookMaxBackoffSeconds: 4,
    subscriptionMinIntervalSeconds: 1,
    subscriptionCleanupIntervalSeconds: 10,
    createBatchMax: 20,
    claimBatchMax: 20,
    resultBatchMax: 20,
    metricsCommandsMax: 10,
  };
}
