/** Options that many commands have in common. */
import {
  configPathEnv,
  configPathFlag,
  flagOf,
  rowOf,
  settingNames,
} from "@codeq/server/command-line";
import type { OptionRow } from "./command.ts";

export const everywhere: readonly OptionRow[] = [
  { name: "json", about: "Print JSON: one object, or one object per line." },
  { name: "no-color", env: "NO_COLOR", about: "Do not use colors." },
  { name: "help", short: "h", about: "Print the usage of the command." },
];

/** Which server, and who is asking. */
export const connection: readonly OptionRow[] = [
  {
    name: "base-url",
    value: "url",
    env: "CODEQ_URL",
    about:
      "Address of the server, or of several nodes of a cluster separated by commas (default: http://localhost:8080). CODEQ_BASE_URL is an older name of the variable.",
  },
  {
    name: "token",
    value: "token",
    env: "CODEQ_TOKEN",
    about: "Token for all requests (default: dev-token for a server on this machine).",
  },
  {
    name: "producer-token",
    value: "token",
    env: "CODEQ_PRODUCER_TOKEN",
    about: "Token for creating and reading tasks, and for administration.",
  },
  {
    name: "worker-token",
    value: "token",
    env: "CODEQ_WORKER_TOKEN",
    about: "Token for claiming and finishing tasks (default: the producer token).",
  },
  {
    name: "profile",
    value: "name",
    env: "CODEQ_PROFILE",
    about: "Profile in ~/.codeq/config.yaml with these options.",
  },
  {
    name: "admin",
    env: "CODEQ_ADMIN",
    about: "Send the admin role (X-Role; default: on for a server on this machine).",
  },
  {
    name: "ca-file",
    value: "file",
    env: "CODEQ_CA_FILE",
    about: "CA certificate of the server, if Node does not trust it already.",
  },
  {
    name: "cert-file",
    value: "file",
    env: "CODEQ_CERT_FILE",
    about: "Client certificate.",
  },
  {
    name: "key-file",
    value: "file",
    env: "CODEQ_KEY_FILE",
    about: "Private key of the client certificate.",
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

export const yes: OptionRow = { name: "yes", short: "y", about: "Do not ask for confirmation." };

export const interval: OptionRow = {
  name: "interval",
  value: "time",
  about: "Time between two updates (default: 1s).",
};

/** The flags of the server as rows of options, for help and completion. */
export function serverFlagRows(): readonly OptionRow[] {
  const config: OptionRow = {
    name: configPathFlag.slice(2),
    value: "path",
    env: configPathEnv,
    about: "YAML file to read settings from.",
  };
  const settings = settingNames.map((key): OptionRow => {
    const { parser, about, unit } = rowOf(key);
    const name = flagOf(key).slice(2);
    if (parser.isSwitch === true) return { name, about };
    return { name, value: unit ?? "value", about };
  });
  return [config, ...settings];
}

/** The options of a unique key. */
export const uniqueOptions: readonly OptionRow[] = [
  {
    name: "unique",
    value: "key",
    about: "Unique key; one task at a time has it in the queue.",
  },
  {
    name: "unique-on",
    value: "action",
    about: "If a task has the key: return (default), refuse, replace, latest or cancel.",
  },
  {
    name: "unique-while",
    value: "place",
    choices: ["unfinished", "waiting"],
    about: "Until when a task has the key: until it has ended, or until a worker begins it.",
  },
  {
    name: "unique-for",
    value: "time",
    about: "Hold the key for at least this time, also when the task ends before.",
  },
  {
    name: "unique-max-wait",
    value: "time",
    about: "How long later calls may put off the task.",
  },
];
