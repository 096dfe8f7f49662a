/**
 * Runs a task with a function of the user's module: its default export, or its export `handle`. The function
 * gets the payload and a context. Its return value is the result; an exception causes a retry, or fails the
 * task without a retry if the error has `permanent: true`.
 */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { CliError, usageError } from "../cli-error.ts";
import type { RunTask } from "./do-tasks.ts";
import { resultOf } from "./run-command.ts";

interface HandlerContext {
  readonly id: string;
  readonly command: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Aborts when the run counts for nothing any more. */
  readonly signal: AbortSignal;
}

type Handler = (payload: unknown, context: HandlerContext) => unknown;

export async function runModule(path: string, directory: string): Promise<RunTask> {
  const handler = await load(resolve(directory, path));
  return async ({ id, task: command, attempt, maxAttempts, signal, payloadText }) => {
    const context = { id, command, attempt, maxAttempts, signal };
    try {
      const value = await handler(JSON.parse(payloadText), context);
      return { as: "completed", result: resultOf(JSON.stringify(value) ?? "") };
    } catch (error) {
      const { message = String(error), permanent } = (error ?? {}) as {
        message?: string;
        permanent?: unknown;
      };
      if (permanent === true) return { as: "failed", error: message };
      return { as: "retry", reason: message };
    }
  };
}

async function load(path: string): Promise<Handler> {
  let loaded: { default?: unknown; handle?: unknown };
  try {
    loaded = await import(pathToFileURL(path).href);
  } catch (error) {
    throw new CliError(`the module ${path} cannot be loaded: ${(error as Error).message}`, {
      exit: "usage",
      // The place is not part of the error; only Node shows it, for what it runs itself.
      next: error instanceof SyntaxError ? `node ${path} shows the line` : undefined,
      cause: error,
    });
  }
  const handler = loaded.default ?? loaded.handle;
  if (typeof handler === "function") return handler as Handler;
  throw usageError(
    `the module ${path} exports no function`,
    "add a default export: export default async (payload, { signal }) => ({ ... })",
  );
}
