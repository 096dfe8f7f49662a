/** The settings that decide who may call. */
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
  initialInWords: "detected from the auth config",
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
    about: "Provider of producer tokens; must match producerAuthConfig if both are set.",
  },
  producerAuthConfig: {
    ...auth,
    env: ["PRODUCER_AUTH_CONFIG"],
    about:
      "Provider of the tokens of producers and administrators: static tokens, an identity server, or several providers.",
  },
  workerAuthProvider: {
    ...provider,
    env: ["WORKER_AUTH_PROVIDER"],
    about: "Provider of worker tokens; must match workerAuthConfig if both are set.",
  },
  workerAuthConfig: {
    ...auth,
    env: ["WORKER_AUTH_CONFIG"],
    about:
      "Provider of the tokens of workers: static tokens, an identity server, or several providers.",
  },
  identityServiceUrl: {
    ...none,
    parser: url,
    env: ["IDENTITY_SERVICE_URL"],
    about:
      "Older form of two settings: identityJwksUrl is `/v1/.well-known/jwks.json` below this URL, and identityIssuer is the URL itself.",
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
    about: `Required issuer of tokens, ${ofProducers}.`,
  },
  identityAudience: {
    ...none,
    parser: audience,
    env: ["IDENTITY_AUDIENCE"],
    about: `Required audience of tokens, ${ofProducers}.`,
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
    about: `Required issuer of tokens, ${ofWorkers}.`,
  },
  workerAudience: {
    parser: audience,
    initial: "codeq-worker",
    env: ["WORKER_AUDIENCE"],
    about: `Required audience of tokens, ${ofWorkers}.`,
  },
  allowedClockSkewSeconds: {
    parser: wholeNumber(0, 600, 60),
    initial: 60,
    unit: "seconds",
    env: ["ALLOWED_CLOCK_SKEW_SECONDS"],
    about: "Tolerated clock difference to an identity server without a clockSkew of its own.",
  },
  allowProducerAsWorker: {
    parser: trueOrFalse,
    initial: false,
    env: ["ALLOW_PRODUCER_AS_WORKER"],
    about: "Whether the token of a producer also allows claiming and finishing tasks.",
  },
  allowRoleHeader: {
    parser: trueOrFalse,
    initial: false,
    about:
      "Whether the header `X-Role: ADMIN` makes a caller without roles an admin; only if env is `dev`.",
  },
};
