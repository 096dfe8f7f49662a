/** Turns the error that ends a worker of the client library into a message of this command line. */
import type { CodeqError } from "@codeq/client";
import { errors } from "@codeq/server/command-line";
import { type ApiClient, otherToken } from "../api/api-client.ts";
import { CliError, type CliErrorOptions } from "../cli-error.ts";

export function workerError(error: CodeqError, api: ApiClient): CliError {
  const url = api.connection.baseUrl.value;
  const { code, message } = error;
  const status = Object.hasOwn(errors, code) ? errors[code as keyof typeof errors].http : undefined;
  const at = { status, cause: error, ...(status === undefined ? {} : { serverCode: code }) };
  const denied = (): CliErrorOptions => ({
    ...at,
    exit: "denied",
    next: otherToken(api.token("worker")),
  });
  if (code === "invalid_option") return new CliError(message, { ...at, exit: "usage" });
  if (status === 401 || status === 403 || code === "unauthenticated") {
    return new CliError(`${url} refused: ${message}`, denied());
  }
  if (code === "permission_denied") return new CliError(`${url} refused: ${message}`, denied());
  if (error.retryable) return new CliError(`${url}: ${message}`, { ...at, exit: "unreachable" });
  return new CliError(`${url} refused: ${message}`, { ...at, exit: "refused" });
}
