/** Options that many commands have in common. */
import type { OptionRow } from "./command.ts";

export const everywhere: readonly OptionRow[] = [
  { name: "json", about: "Print JSON: one object, or one per line where there are many." },
  { name: "no-color", env: "NO_COLOR", about: "No colours, also on a terminal." },
  { name: "help", short: "h", about: "Print how the command is used." },
];

/** Which server, and who is asking. */
export const connection: readonly OptionRow[] = [
  {
    name: "base-url",
    value: "url",
    env: "CODEQ_BASE_URL",
    about: "Where the server is; http://localhost:8080 unless told.",
  },
  {
    name: "token",
    value: "token",
    env: "CODEQ_TOKEN",
    about: "Token for everything; dev-token for a server on this machine unless told.",
  },
  {
    name: "producer-token",
    value: "token",
    env: "CODEQ_PRODUCER_TOKEN",
    about: "Token for creating and reading tasks, and for queues and keys.",
  },
  {
    name: "worker-token",
    value: "token",
    env: "CODEQ_WORKER_TOKEN",
    about: "Token for working on tasks; that of the producer unless told.",
  },
  {
    name: "profile",
    value: "name",
    env: "CODEQ_PROFILE",
    about: "Profile of ~/.codeq/config.yaml to take all of this from.",
  },
  {
    name: "admin",
    env: "CODEQ_ADMIN",
    about: "Ask as an administrator (X-Role); on for a server on this machine unless told.",
  },
  {
    name: "ca-file",
    value: "file",
    env: "CODEQ_CA_FILE",
    about: "CA of the server, when it is not one that Node trusts.",
  },
  {
    name: "cert-file",
    value: "file",
    env: "CODEQ_CERT_FILE",
    about: "Certificate to show to the server.",
  },
  {
    name: "key-file",
    value: "file",
    env: "CODEQ_KEY_FILE",
    about: "Private key of the certificate.",
  },
  {
    name: "iam-base-url",
    value: "url",
    env: "CODEQ_IAM_BASE_URL",
    about: "Accepted for existing scripts; has no effect.",
  },
  {
    name: "iam-api-key",
    value: "key",
    env: "CODEQ_IAM_API_KEY",
    about: "Accepted for existing scripts; has no effect.",
  },
];

export const yes: OptionRow = { name: "yes", short: "y", about: "Do not ask." };

export const interval: OptionRow = {
  name: "interval",
  value: "time",
  about: "Time between two looks; 1s unless told.",
};
