/** Tasks over HTTP: claims that the server holds until there is work. */
import { limits } from "@codeq/server/tooling";
import type { ApiClient } from "../api/api-client.ts";
import { CliError } from "../cli-error.ts";
import type { ClaimedTask, TaskEnd, TaskSource } from "./task-source.ts";

export interface HttpTaskSourceOptions {
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly waitSeconds: number;
}

export class HttpTaskSource implements TaskSource {
  readonly #api: ApiClient;
  readonly #options: HttpTaskSourceOptions;

  constructor(api: ApiClient, options: HttpTaskSourceOptions) {
    this.#api = api;
    this.#options = options;
  }

  async claim(signal: AbortSignal): Promise<ClaimedTask | undefined> {
    const { commands, leaseSeconds } = this.#options;
    const waitSeconds = Math.min(this.#options.waitSeconds, limits.claimWaitSecondsMax);
    const body = JSON.stringify({ commands, leaseSeconds, waitSeconds });
    const options = { as: "worker", waitMs: waitSeconds * 1000, signal } as const;
    const reply = await this.#api.post("/tasks/claim", body, options);
    if (reply.status === 204 || reply.text === "") return undefined;
    const task = JSON.parse(reply.text) as Omit<ClaimedTask, "attempts"> & { attempts?: number };
    return { ...task, attempts: task.attempts ?? 0 };
  }

  async extend(task: ClaimedTask): Promise<boolean> {
    try {
      await this.#send(task, "heartbeat", { extendSeconds: this.#options.leaseSeconds });
      return true;
    } catch (error) {
      if (isLostLease(error)) return false;
      throw error;
    }
  }

  async finish(task: ClaimedTask, end: TaskEnd): Promise<string> {
    switch (end.as) {
      case "completed": {
        const body = `{"status":"COMPLETED","result":${end.result},"leaseToken":${task.leaseToken}}`;
        await this.#post(task, "result", body);
        return "completed";
      }
      case "failed": {
        const error = end.error.trim().slice(0, limits.errorCharsMax) || "failed";
        await this.#send(task, "result", { status: "FAILED", error });
        return "failed";
      }
      case "retry": {
        const reason = end.reason.slice(0, limits.reasonCharsMax);
        const { delaySeconds } = end;
        return statusIn(await this.#send(task, "nack", { reason, delaySeconds }));
      }
      case "handed back":
        return statusIn(await this.#send(task, "abandon", { interrupted: true }));
      case "abandoned":
        return statusIn(await this.#send(task, "abandon", {}));
      case "left alone":
        return "left alone";
    }
  }

  #send(
    task: ClaimedTask,
    verb: string,
    fields: Readonly<Record<string, unknown>>,
  ): Promise<string> {
    return this.#post(task, verb, JSON.stringify({ ...fields, leaseToken: task.leaseToken }));
  }

  async #post(task: ClaimedTask, verb: string, body: string): Promise<string> {
    return (await this.#api.post(`/tasks/${task.id}/${verb}`, body, { as: "worker" })).text;
  }
}

function statusIn(text: string): string {
  return (JSON.parse(text) as { status?: string }).status ?? "";
}

/** Refusals that say that somebody else has the task, or nobody. */
export function isLostLease(error: unknown): boolean {
  const status = error instanceof CliError ? error.status : undefined;
  return status === 403 || status === 404 || status === 409;
}
