/**
 * Chooses the providers of tokens: the auth config of a kind of caller, otherwise the older settings of its
 * identity server, otherwise the development token, which applies only in development and only if nothing at
 * all is configured. An incomplete configuration is a mistake and is not completed.
 */

import type { ProviderConfig, SettingName, Settings, StaticTokenConfig } from "../settings.ts";
import { readJwks, type WrittenProvider } from "./auth-blob.ts";

interface AuthChoice {
  readonly producers: readonly ProviderConfig[];
  readonly workers: readonly ProviderConfig[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export const developmentToken = "dev-token";

export function chooseAuth(settings: Settings, touched: ReadonlySet<SettingName>): AuthChoice {
  const producers = choose(producerKeys, settings, touched);
  const workers = choose(workerKeys, settings, touched);
  const problems = [...producers.problems, ...workers.problems, ...checkRoleHeader(settings)];
  const warnings = [...producers.warnings, ...workers.warnings];
  if (!producers.isWritten && !workers.isWritten && settings.env === "dev") {
    return {
      producers: [{ type: "static", tokens: [developmentProducer] }],
      workers: [{ type: "static", tokens: [developmentWorker] }],
      problems,
      warnings,
    };
  }
  if (!producers.isWritten) problems.push(missing("producerAuthConfig", settings.env, ""));
  if (!workers.isWritten && !settings.allowProducerAsWorker) {
    problems.push(missing("workerAuthConfig", settings.env, ", or allowProducerAsWorker"));
  }
  problems.push(...refuseDevelopmentToken(settings));
  return { producers: producers.providers, workers: workers.providers, problems, warnings };
}

const developmentProducer: StaticTokenConfig = {
  token: developmentToken,
  subject: "static",
  email: "",
  scopes: [],
  eventTypes: [],
  raw: { role: "ADMIN", tenantId: "dev-tenant" },
};

const developmentWorker: StaticTokenConfig = {
  token: developmentToken,
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

interface AuthSettingNames {
  readonly provider: "producerAuthProvider" | "workerAuthProvider";
  readonly config: "producerAuthConfig" | "workerAuthConfig";
  readonly older: readonly SettingName[];
  /** The fields of the older settings; undefined if they name no key set. */
  readonly written: (settings: Settings) => Readonly<Record<string, string>> | undefined;
}

const producerKeys: AuthSettingNames = {
  provider: "producerAuthProvider",
  config: "producerAuthConfig",
  older: ["identityServiceUrl", "identityJwksUrl", "identityIssuer", "identityAudience"],
  written: ({ identityServiceUrl, identityJwksUrl, identityIssuer, identityAudience }) => {
    const base = identityServiceUrl.replace(/\/+$/, "");
    const derived = base === "" ? "" : `${base}/v1/.well-known/jwks.json`;
    const jwksUrl = identityJwksUrl || derived;
    return jwksUrl === ""
      ? undefined
      : { jwksUrl, issuer: identityIssuer || base, audience: identityAudience };
  },
};

const workerKeys: AuthSettingNames = {
  provider: "workerAuthProvider",
  config: "workerAuthConfig",
  older: ["workerJwksUrl", "workerIssuer", "workerAudience"],
  written: ({ workerJwksUrl: jwksUrl, workerIssuer: issuer, workerAudience: audience }) =>
    jwksUrl === "" ? undefined : { jwksUrl, issuer, audience },
};

interface Choice {
  readonly isWritten: boolean;
  readonly providers: readonly ProviderConfig[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

function choose(
  names: AuthSettingNames,
  settings: Settings,
  touched: ReadonlySet<SettingName>,
): Choice {
  const older = names.older.filter((name) => touched.has(name));
  const blob = settings[names.config];
  if (touched.has(names.config)) {
    const said = settings[names.provider];
    const disagrees =
      touched.has(names.provider) && blob.providers.length > 0 && said !== blob.shape;
    const problem =
      `${names.provider}: ${said} does not match ${names.config}, which is written for ` +
      `${blob.shape}; remove ${names.provider} or correct ${names.config}`;
    const warnings = older.map((name) => `${name} has no effect, because ${names.config} is set`);
    return {
      isWritten: true,
      providers: blob.providers.map((each) => withSkew(each, settings)),
      problems: disagrees ? [problem] : [],
      warnings,
    };
  }
  return chooseOlder(names, older, settings);
}

/** The providers from the older settings of an identity server. */
function chooseOlder(
  names: AuthSettingNames,
  older: readonly SettingName[],
  settings: Settings,
): Choice {
  const said = settings[names.provider];
  const refused = (problem: string): Choice => ({
    isWritten: true,
    providers: [],
    problems: [problem],
    warnings: [],
  });
  if (older.length === 0) {
    if (said !== "static")
      return refused(`${names.provider}: ${said} needs ${names.config}; set both`);
    return { isWritten: false, providers: [], problems: [], warnings: [] };
  }
  const written = names.written(settings);
  if (written === undefined) {
    const url = names.older.find((name) => name.endsWith("JwksUrl"));
    return refused(`${older[0]}: has no effect without ${url}; set both`);
  }
  const read = readJwks(written);
  if (!read.ok) return refused(`${older.join(", ")}: ${read.problem}`);
  const providers = [withSkew(read.value, settings)];
  return { isWritten: true, providers, problems: [], warnings: [] };
}

function withSkew(written: WrittenProvider, settings: Settings): ProviderConfig {
  if (written.type === "static") return written;
  const { clockSkewMs = settings.allowedClockSkewSeconds * 1000 } = written;
  return { ...written, clockSkewMs };
}

/** The development token is public, so outside development it protects nothing. */
function refuseDevelopmentToken(settings: Settings): string[] {
  if (settings.env === "dev") return [];
  return (["producerAuthConfig", "workerAuthConfig"] as const)
    .filter((name) => settings[name].providers.some(hasDevelopmentToken))
    .map(
      (name) =>
        `${name}: contains the development token and env is ${settings.env}; replace it by a ` +
        "long random text",
    );
}

export function hasDevelopmentToken(provider: WrittenProvider): boolean {
  return (
    provider.type === "static" && provider.tokens.some(({ token }) => token === developmentToken)
  );
}

function missing(
  name: "producerAuthConfig" | "workerAuthConfig",
  env: string,
  alternative: string,
): string {
  const [whose, variable] =
    name === "producerAuthConfig"
      ? ["producers", "PRODUCER_AUTH_CONFIG"]
      : ["workers", "WORKER_AUTH_CONFIG"];
  return (
    `${name}: no tokens are configured for ${whose} and env is ${env}; set ${name} in the file or ` +
    `${variable} in the environment to {"token":"...","subject":"..."}${alternative}`
  );
}

function checkRoleHeader({ allowRoleHeader, env }: Settings): string[] {
  if (!allowRoleHeader || env === "dev") return [];
  return [
    `allowRoleHeader: only allowed when env is dev, and it is ${env}; remove it, and give ` +
      "admins a role or the scope codeq:admin in their tokens",
  ];
}
