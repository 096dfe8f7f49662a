/**
 * What must hold between keys, and what an operator may leave out only in development. Turns the
 * values of single keys into the configuration that the server reads.
 */
import { join } from "node:path";
import { envNamesOf, keys } from "./keys.ts";
import type { Config, KeyName, Settings, StaticTokenConfig } from "./settings.ts";

interface Checked {
  readonly config: Config;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export function closeConfig(
  values: ReadonlyMap<KeyName, unknown>,
  sources: Readonly<Record<KeyName, string>>,
  touched: ReadonlySet<KeyName>,
): Checked {
  // The table's types say what each parser returned; the map has only forgotten which is which.
  const settings = Object.fromEntries(values) as unknown as Settings;
  const { persistenceConfig: _, producerAuthConfig, workerAuthConfig, ...rest } = settings;
  const auth = chooseTokens(settings, touched);
  const config: Config = {
    ...rest,
    localArtifactsDir: settings.localArtifactsDir || join(settings.dataDir, "artifacts"),
    producerAuth: auth.development ? [developmentProducer] : producerAuthConfig,
    workerAuth: auth.development ? [developmentWorker] : workerAuthConfig,
    sources,
  };
  const warnings = [...auth.warnings];
  if (settings.persistenceProvider === "memory") {
    warnings.push("persistenceProvider is memory: every task is lost when the process ends");
  }
  if (hasStreams(settings) && settings.payloadBytesMax > streamPayloadBytesMax) {
    warnings.push(
      `payloadBytesMax is ${settings.payloadBytesMax}: a task with more than ` +
        `${streamPayloadBytesMax} bytes cannot be sent on a stream and ends the stream of the ` +
        "worker that gets it; lower payloadBytesMax, or turn workerStreamAddr and " +
        "producerStreamAddr off",
    );
  }
  const problems = [
    ...auth.problems,
    ...checkOrder(settings),
    ...checkSecret(settings, touched),
    ...checkStreams(settings),
    ...checkRoleHeader(settings),
  ];
  return { config, problems, warnings };
}

const developmentProducer: StaticTokenConfig = {
  token: "dev-token",
  subject: "static",
  email: "",
  scopes: [],
  eventTypes: [],
  raw: { role: "ADMIN", tenantId: "dev-tenant" },
};

const developmentWorker: StaticTokenConfig = {
  token: "dev-token",
  subject: "static",
  email: "",
  scopes: [
    "codeq:claim",
    "codeq:heartbeat",
    "codeq:abandon",
    "codeq:nack",
    "codeq:result",
    "codeq:subscribe",
  ],
  eventTypes: ["*"],
  raw: { tenantId: "dev-tenant" },
};

interface TokenChoice {
  readonly development: boolean;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** The development tokens stand in only when nobody wrote any; half a configuration is a mistake. */
function chooseTokens(settings: Settings, touched: ReadonlySet<KeyName>): TokenChoice {
  const producer = touched.has("producerAuthConfig");
  const worker = touched.has("workerAuthConfig");
  if (!producer && !worker && settings.env === "dev") {
    const warning =
      `no tokens are configured and env is dev: whoever reaches ${settings.host} may do ` +
      "everything with dev-token";
    return { development: true, problems: [], warnings: [warning] };
  }
  const problems: string[] = [];
  if (!producer) problems.push(missingTokens("producerAuthConfig", settings.env, ""));
  if (!worker && !settings.allowProducerAsWorker) {
    problems.push(missingTokens("workerAuthConfig", settings.env, ", or allowProducerAsWorker"));
  }
  return { development: false, problems, warnings: [] };
}

function missingTokens(
  name: "producerAuthConfig" | "workerAuthConfig",
  env: string,
  alternative: string,
): string {
  const variable = keys[name].env?.[0] ?? envNamesOf(name)[0];
  return (
    `${name}: no tokens are configured and env is ${env}; set ${name} in the file or ` +
    `${variable} in the environment to {"token":"...","subject":"..."}${alternative}`
  );
}

function checkSecret(settings: Settings, touched: ReadonlySet<KeyName>): string[] {
  if (settings.env === "dev" || touched.has("webhookHmacSecret")) return [];
  return [
    `webhookHmacSecret: required because env is ${settings.env}; set WEBHOOK_HMAC_SECRET in the ` +
      "environment to a long random text",
  ];
}

/** Clients refuse messages of more than 4 MiB; 64 KiB are left for what is around the payload. */
const streamPayloadBytesMax = 4 * 1024 * 1024 - 64 * 1024;

function hasStreams({ workerStreamAddr, producerStreamAddr }: Settings): boolean {
  return workerStreamAddr !== "off" || producerStreamAddr !== "off";
}

function checkStreams({ workerStreamAddr: address, producerStreamAddr }: Settings): string[] {
  const isSame = address === producerStreamAddr && address !== "off" && !address.endsWith(":0");
  if (!isSame) return [];
  return [
    `producerStreamAddr: ${address} is the address of workerStreamAddr, too; both streams answer ` +
      "on either, so turn one of them off",
  ];
}

function checkRoleHeader({ allowRoleHeader, env }: Settings): string[] {
  if (!allowRoleHeader || env === "dev") return [];
  return [
    `allowRoleHeader: only allowed when env is dev, and it is ${env}; remove it, and give ` +
      "admins a role or the scope codeq:admin in their tokens",
  ];
}

function checkOrder(settings: Settings): string[] {
  const pairs: [KeyName & NumberKey, KeyName & NumberKey][] = [
    ["backoffBaseSeconds", "backoffMaxSeconds"],
    ["resultWebhookBaseBackoffSeconds", "resultWebhookMaxBackoffSeconds"],
    ["payloadBytesMax", "bodyBytesMax"],
  ];
  return pairs
    .filter(([low, high]) => settings[low] > settings[high])
    .map(
      ([low, high]) =>
        `${low}: ${settings[low]} is more than ${high}, which is ${settings[high]}; ` +
        `lower ${low} or raise ${high}`,
    );
}

type NumberKey = {
  [K in KeyName]: Settings[K] extends number ? K : never;
}[KeyName];
