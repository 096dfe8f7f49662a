/**
 * The rules between settings, and the settings that are optional only in development. Turns the values of
 * single settings into the configuration that the server reads.
 */
import { join } from "node:path";
import { chooseAuth } from "./auth/choose-auth.ts";
import { clusterProblems, clusterWarnings } from "./cluster.ts";
import { connectionProblems, connectionWarnings, reachableAddresses } from "./listeners.ts";
import { rateLimitPairs } from "./rate-limit-settings.ts";
import type { Config, ProviderConfig, SettingName, Settings } from "./settings.ts";

interface Checked {
  readonly config: Config;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export function checkConfig(
  values: ReadonlyMap<SettingName, unknown>,
  sources: Readonly<Record<SettingName, string>>,
  touched: ReadonlySet<SettingName>,
): Checked {
  // Each value was returned by the parser of its row, so it has the type of its setting.
  const settings = Object.fromEntries(values) as unknown as Settings;
  const { persistenceConfig: _, producerAuthConfig: __, workerAuthConfig: ___, ...rest } = settings;
  const auth = chooseAuth(settings, touched);
  const config: Config = {
    ...rest,
    backupDir: settings.backupDir || join(settings.dataDir, "backups"),
    localArtifactsDir: settings.localArtifactsDir || join(settings.dataDir, "artifacts"),
    webhookAllowPrivateNetworks: mayPostInside(settings, touched),
    producerAuth: auth.producers,
    workerAuth: auth.workers,
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
  const ofNetworks = [...connectionWarnings(settings), ...clusterWarnings(settings)];
  warnings.push(...ofNetworks, ...halfLimits(settings));
  const problems = [
    ...auth.problems,
    ...checkOrder(settings),
    ...checkSecret(settings, touched),
    ...checkStreams(settings),
    ...clusterProblems(settings),
    ...connectionProblems(settings, touched),
    ...artifactProblems(settings),
    ...consoleProblems(settings, auth.producers),
  ];
  return { config, problems, warnings };
}

/** A development server that only this machine reaches may post to what is being developed beside it. */
function mayPostInside(settings: Settings, touched: ReadonlySet<SettingName>): boolean {
  if (touched.has("webhookAllowPrivateNetworks")) return settings.webhookAllowPrivateNetworks;
  return settings.env === "dev" && reachableAddresses(settings).length === 0;
}

function artifactProblems(settings: Settings): string[] {
  if (settings.artifactProvider !== "s3") return [];
  const needed = ["s3Bucket", "s3AccessKeyId", "s3SecretAccessKey"] as const;
  return needed
    .filter((name) => settings[name] === "")
    .map((name) => `${name}: required because artifactProvider is s3`);
}

/** Sign-in needs the identity server that signs the tokens of producers. */
export function consoleProblems(
  { consoleLoginClientId }: Settings,
  producers: readonly ProviderConfig[],
): string[] {
  if (consoleLoginClientId === "") return [];
  const issuer = producers.find((each) => each.type === "jwks")?.issuer;
  if (issuer === undefined) {
    return [
      "consoleLoginClientId: needs an identity server that signs the tokens of people; set producerAuthConfig with " +
        "jwksUrl, issuer and audience",
    ];
  }
  if (/^https?:/.test(issuer) && URL.canParse(issuer)) return [];
  return [
    `consoleLoginClientId: the issuer ${issuer} is not a URL, so the console cannot find its sign-in page; remove ` +
      "consoleLoginClientId, or use an issuer that begins with https://",
  ];
}

function checkSecret(settings: Settings, touched: ReadonlySet<SettingName>): string[] {
  if (settings.env === "dev" || touched.has("webhookHmacSecret")) return [];
  if (settings.webhookSecrets.default.length > 0) return [];
  return [
    `webhookHmacSecret: required because env is ${settings.env}; set WEBHOOK_HMAC_SECRET in the ` +
      "environment to a long random text",
  ];
}

/** Clients refuse messages over 4 MiB; 64 KiB are reserved for the fields around the payload. */
const streamPayloadBytesMax = 4 * 1024 * 1024 - 64 * 1024;

function hasStreams({ workerStreamAddr, producerStreamAddr }: Settings): boolean {
  return workerStreamAddr !== "off" || producerStreamAddr !== "off";
}

function checkStreams({ workerStreamAddr: address, producerStreamAddr }: Settings): string[] {
  const isSame = address === producerStreamAddr && address !== "off" && !address.endsWith(":0");
  if (!isSame) return [];
  return [
    `producerStreamAddr: ${address} is also the address of workerStreamAddr; each port serves both ` +
      "streams, so turn one of them off",
  ];
}

function checkOrder(settings: Settings): string[] {
  const pairs: [SettingName & NumberSetting, SettingName & NumberSetting][] = [
    ["backoffBaseSeconds", "backoffMaxSeconds"],
    ["resultWebhookBaseBackoffSeconds", "resultWebhookMaxBackoffSeconds"],
    ["payloadBytesMax", "bodyBytesMax"],
    ["headersTimeoutSeconds", "requestTimeoutSeconds"],
  ];
  return pairs
    .filter(([low, high]) => settings[low] > settings[high])
    .map(
      ([low, high]) =>
        `${low}: ${settings[low]} is more than ${high}, which is ${settings[high]}; ` +
        `lower ${low} or raise ${high}`,
    );
}

/** A rate without a burst, or a burst without a rate, limits nothing; that is rarely intended. */
function halfLimits(settings: Settings): string[] {
  return rateLimitPairs
    .flatMap(([rate, burst]) => [[rate, burst] as const, [burst, rate] as const])
    .filter(([name, other]) => settings[name] > 0 && settings[other] === 0)
    .map(([name, other]) => `${name} has no effect without ${other}; set both to limit the rate`);
}

type NumberSetting = {
  [K in SettingName]: Settings[K] extends number ? K : never;
}[SettingName];
