/**
 * Reports what happens to the tasks of the caller's tenant, or of all tenants, from now on. The feed ends
 * with the caller's token, with the server, or when the caller leaves.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import { type TaskEvent, type TaskEventName, taskEventNames } from "../telemetry/feed.ts";
import { askedTenant } from "./asked-tenant.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Refusal,
  refusal,
  type Server,
} from "./operation.ts";

export interface WatchEventsInput {
  /** Empty for every command. */
  readonly command: string;
  /** Names of events, with commas between them; empty for all. */
  readonly types: string;
}

/** Whoever reads a feed; nothing waits for it. */
export interface FeedReader {
  /** False when it cannot take the event. */
  readonly hear: (event: TaskEvent) => boolean;
  /** Comes regularly, so that the other end knows that nothing is wrong. */
  readonly beat: () => void;
  readonly end: (code: ErrorCode) => void;
}

export const watchEvents: Operation<WatchEventsInput, OpenFeed> = {
  name: "watch_events",
  access: "admin",
  scope: undefined,
  forEveryTenant: true,
  audit: { of: "other tenants" },
  run: async (server, call, input) => {
    const wants = wanted(input);
    if (!wants.ok) return wants;
    const refused = refusalOfFeed(server, call);
    return refused ?? { ok: true, value: new OpenFeed(server, call, wants.value) };
  },
};

/** Why no other feed may be opened. */
export function refusalOfFeed({ feed }: Server, call: Call): Refusal | undefined {
  if (feed.size >= limits.feedsMax) {
    return refusal("overloaded", "too many event feeds are open; try again");
  }
  const isFull = feed.sizeOf(askedTenant(call)) >= limits.feedsPerTenantMax;
  return isFull ? refusal("too_many_feeds") : undefined;
}

const beatMs = 15_000;

/** A slot among the feeds, taken until it is closed or ends. */
export class OpenFeed {
  readonly #server: Server;
  readonly #call: Call;
  readonly #stopListening: () => void;
  #reader: FeedReader | undefined;
  #ended: ErrorCode | undefined;
  #cancelBeat: () => void = () => {};
  #cancelExpiry: () => void = () => {};

  constructor(server: Server, call: Call, wants: (event: TaskEvent) => boolean) {
    this.#server = server;
    this.#call = call;
    this.#stopListening = server.feed.listen({
      tenantId: askedTenant(call),
      hear: (event) => {
        if (this.#reader === undefined || !wants(event)) return;
        server.events.eventFed(this.#reader.hear(event) ? "told" : "missed");
      },
      end: (code) => this.#end(code),
    });
    this.#endAtExpiry();
    const { signal } = call;
    if (signal?.aborted === true) this.#cutOff();
    else signal?.addEventListener("abort", () => this.#cutOff(), { once: true });
  }

  /** Begins to tell. */
  readBy(reader: FeedReader): void {
    if (this.#ended !== undefined) {
      reader.end(this.#ended);
      return;
    }
    this.#reader = reader;
    this.#beatLater();
  }

  close(): void {
    this.#stopListening();
    this.#cancelBeat();
    this.#cancelExpiry();
    this.#reader = undefined;
  }

  #end(code: ErrorCode): void {
    const reader = this.#reader;
    this.close();
    this.#ended = code;
    reader?.end(code);
  }

  /** The token was revoked, or nobody is there any more. */
  #cutOff(): void {
    if (this.#call.identity.isRevoked()) this.#end("token_revoked");
    else this.close();
  }

  #beatLater(): void {
    this.#cancelBeat = this.#server.clock.after(beatMs, () => {
      this.#reader?.beat();
      this.#beatLater();
    });
  }

  #endAtExpiry(): void {
    const { clock } = this.#server;
    const { expiresMs } = this.#call.identity;
    if (expiresMs === undefined) return;
    this.#cancelExpiry = clock.after(expiresMs - clock.nowMs(), () => {
      // A timer has a longest delay, and the wall clock may have been set back.
      if (clock.nowMs() < expiresMs) this.#endAtExpiry();
      else this.#end("token_expired");
    });
  }
}

/** Which events the caller asked for. */
function wanted({ command, types }: WatchEventsInput): Answer<(event: TaskEvent) => boolean> {
  if (command !== "" && !limits.commandPattern.test(command)) return refusal("invalid_command");
  const names: readonly string[] = types === "" ? taskEventNames : types.split(",");
  if (!names.every(isEventName)) {
    const known = taskEventNames.join(", ");
    return refusal(
      "invalid_argument",
      `invalid 'type' (one or more of ${known}, separated by commas)`,
    );
  }
  const events = new Set<TaskEventName>(names);
  const queue = queueOf(command);
  return {
    ok: true,
    value: (event) => events.has(event.event) && (queue === "" || queueOf(event.command) === queue),
  };
}

function isEventName(name: string): name is TaskEventName {
  return taskEventNames.some((each) => each === name);
}
