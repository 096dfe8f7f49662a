/** The rows of the table of settings that decide who may call. */
import { authBlob } from "./auth-blob.ts";
import { choice, text, trueOrFalse, wholeNumber } from "./parsers.ts";
import type { SettingTable } from "./setting-table.ts";
import type { AuthProvider, WrittenAuth } from "./settings.ts";

type AccessSetting =
  | "producerAuthProvider"
  | "producerAuthConfig"
  | "workerAuthProvider"
  | "workerAuthConfig"
  | "identityServiceUrl"
  | "identityJwksUrl"
  | "identityIssuer"
  | "identityAudience"
  | "workerJwksUrl"
  | "workerIssuer"
  | "workerAudience"
  | "allowedClockSkewSeconds"
  | "allowProducerAsWorker"
  | "allowRoleHeader";

const provider = {
  parser: choice<AuthProvider>(["static", "jwks", "multi"]),
  initial: "static" as AuthProvider,
  initialInWords: "what the auth config looks like",
} as const;
const nothingWritten: WrittenAuth = { shape: "static", providers: [] };
const auth = {
  parser: authBlob,
  initial: nothingWritten,
  initialInWords: "the development token when env is `dev`, otherwise required",
  secret: true,
} as const;

const url = text({
  accepts: "an http or https URL",
  example: "https://id.example.com/jwks.json",
  test: (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
});
const issuer = text({ accepts: "text", example: "https://id.example.com" });
const audience = text({ accepts: "text", example: "codeq" });
const none = { initial: "", initialInWords: "none" } as const;
const ofProducers = "for producers without a producerAuthConfig";
const ofWorkers = "for workers without a workerAuthConfig";

export const accessSettings: Pick<SettingTable, AccessSetting> = {
  producerAuthProvider: {
    ...provider,
    env: ["PRODUCER_AUTH_PROVIDER"],
    about:
      "How tokens of producers are checked; must agree with producerAuthConfig when both are set.",
  },
  producerAuthConfig: {
    ...auth,
    env: ["PRODUCER_AUTH_CONFIG"],
    about: "Who vouches for producers and administrators: tokens, an identity server, or several.",
  },
  workerAuthProvider: {
    ...provider,
    env: ["WORKER_AUTH_PROVIDER"],
    about: "How tokens of workers are checked; must agree with workerAuthConfig when both are set.",
  },
  workerAuthConfig: {
    ...auth,
    env: ["WORKER_AUTH_CONFIG"],
    about: "Who vouches for workers: tokens, an identity server, or several.",
  },
  identityServiceUrl: {
    ...none,
    parser: url,
    env: ["IDENTITY_SERVICE_URL"],
    about:
      "Older spelling of two keys: identityJwksUrl is `/v1/.well-known/jwks.json` below it, and identityIssuer is the URL itself.",
  },
  identityJwksUrl: {
    ...none,
    parser: url,
    env: ["IDENTITY_JWKS_URL"],
    about: `Key set of the identity server, ${ofProducers}.`,
  },
  identityIssuer: {
    ...none,
    parser: issuer,
    env: ["IDENTITY_ISSUER"],
    about: `Issuer that tokens must name, ${ofProducers}.`,
  },
  identityAudience: {
    ...none,
    parser: audience,
    env: ["IDENTITY_AUDIENCE"],
    about: `Audience that tokens must name, ${ofProducers}.`,
  },
  workerJwksUrl: {
    ...none,
    parser: url,
    env: ["WORKER_JWKS_URL"],
    about: `Key set of the identity server, ${ofWorkers}.`,
  },
  workerIssuer: {
    ...none,
    parser: issuer,
    env: ["WORKER_ISSUER"],
    about: `Issuer that tokens must name, ${ofWorkers}.`,
  },
  workerAudience: {
    parser: audience,
    initial: "codeq-worker",
    env: ["WORKER_AUDIENCE"],
    about: `Audience that tokens must name, ${ofWorkers}.`,
  },
  allowedClockSkewSeconds: {
    parser: wholeNumber(0, 600, 60),
    initial: 60,
    unit: "seconds",
    env: ["ALLOWED_CLOCK_SKEW_SECONDS"],
    about:
      "How far the clock of an identity server may differ from this one, where its config has no clockSkew.",
  },
  allowProducerAsWorker: {
    parser: trueOrFalse,
    initial: false,
    env: ["ALLOW_PRODUCER_AS_WORKER"],
    about: "Whether a producer's token may also claim and finish tasks.",
  },
  allowRoleHeader: {
    parser: trueOrFalse,
    initial: false,
    about:
      "Whether a token without roles is an admin's when the request says `X-Role: ADMIN`; only when env is `dev`.",
  },
};
