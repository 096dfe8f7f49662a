/** Reads the event feed of a server, and reconnects when the server was away. */
import type { ServerSentEvent } from "@codeq/client/command-line";
import type { ApiClient } from "../api/api-client.ts";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { pause } from "../pause.ts";

/** What happened to a task, as the server tells it. */
export interface TaskEvent {
  readonly event: string;
  readonly time: string;
  readonly taskId: string;
  readonly command: string;
  readonly priority: number;
  readonly attempt: number;
  readonly workerId?: string;
  readonly how?: string;
  readonly delaySeconds?: number;
  readonly reason?: string;
}

export interface FeedSteps {
  /** Empty for all of them. */
  readonly command: string;
  /** Names of events with commas between them; empty for all. */
  readonly types: string;
  readonly signal: AbortSignal;
  readonly heard: (event: TaskEvent) => void;
  /** So many events came faster than they could be read. */
  readonly missed: (count: number) => void;
  /** Something to say about the server. */
  readonly note: (line: string) => void;
}

/** The server shows a sign of life every 15 seconds. */
const silentMsMax = 45_000;
const againMs = 1000;

/**
 * Calls back for whatever happens until the signal. The first failure is the caller's; later ones,
 * when the server is known to be there, are told and passed over.
 */
export async function followFeed(call: Call, api: ApiClient, steps: FeedSteps): Promise<void> {
  const { signal } = steps;
  const server: Server = { hasBeenThere: false, isAway: false };
  while (!signal.aborted) {
    try {
      await readOnce(api, steps, server);
    } catch (error) {
      if (signal.aborted) return;
      const isPassing = error instanceof CliError && error.exit !== "denied";
      if (!server.hasBeenThere || !isPassing) throw error;
      if (!server.isAway) steps.note(error.message);
    }
    server.isAway = true;
    await pause(call.host.clock, againMs, signal);
  }
}

interface Server {
  hasBeenThere: boolean;
  isAway: boolean;
}

async function readOnce(api: ApiClient, steps: FeedSteps, server: Server): Promise<void> {
  const { signal } = steps;
  const query = new URLSearchParams();
  if (steps.command !== "") query.set("command", steps.command);
  if (steps.types !== "") query.set("type", steps.types);
  const path = query.size === 0 ? "/admin/events" : `/admin/events?${query}`;
  for await (const event of api.follow(path, { signal, silentMsMax })) {
    if (server.isAway) steps.note("the server is back; events in between are not shown");
    server.isAway = false;
    server.hasBeenThere = true;
    take(event, steps);
  }
}

function take({ name, value }: ServerSentEvent, steps: FeedSteps): void {
  if (name === "") return;
  const event = value as TaskEvent & { readonly count: number; readonly code: string };
  if (name === "missed") steps.missed(event.count);
  else if (name !== "end") steps.heard(event);
  else steps.note(event.code === "shutting_down" ? "the server is stopping" : (event.reason ?? ""));
}
