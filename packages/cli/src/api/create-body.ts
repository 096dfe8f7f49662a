/** The body of a request that creates a task, from the arguments of a command. */
import { limits } from "@codeq/server/command-line";
import { usageError } from "../cli-error.ts";
import type { Options } from "../options.ts";

export function checkCommand(command: string): string {
  if (limits.commandPattern.test(command)) return command;
  throw usageError(
    `${JSON.stringify(command)} is not a valid command name`,
    "use a letter or digit, then up to 127 letters, digits and _ . : -",
  );
}

/** The members of a request besides command and payload, each with a comma before it. */
export function taskFields(options: Options): string {
  const secondsOf = (name: string): number | undefined => {
    const ms = options.durationMs(name);
    return ms === undefined ? undefined : Math.ceil(ms / 1000);
  };
  const members: Record<string, unknown> = {
    priority: options.wholeNumber("priority", { min: 0, max: limits.priorityMax }),
    maxAttempts: options.wholeNumber("max-attempts", { min: 1, max: limits.maxAttemptsMax }),
    idempotencyKey: options.text("key"),
    runAt: options.instant("run-at"),
    delaySeconds: secondsOf("delay"),
    timeoutSeconds: secondsOf("execution-timeout"),
    ttlSeconds: secondsOf("ttl"),
    webhook: options.text("webhook"),
    tags: options.has("tag") ? options.list("tag") : undefined,
  };
  return asMembers(members);
}

export function asMembers(members: Readonly<Record<string, unknown>>): string {
  return Object.entries(members)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
    .join("");
}

/** Put together as text, because the server keeps the payload as it was written. */
export function createBody(task: { command: string; payload: string; fields: string }): string {
  return `{"command":${JSON.stringify(task.command)},"payload":${task.payload}${task.fields}}`;
}
