/**
 * Reports what happens to the tasks of the caller's tenant, or of all tenants, from now on. The feed ends
 * with the caller's token, with the server, or when the caller leaves.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import { askedTenant } from "../../edge/asked-tenant.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { type TaskEvent, type TaskEventName, taskEventNames } from "../../telemetry/feed.ts";
import type { FeedSummary } from "../../telemetry/feed-summaries.ts";

export interface WatchEventsInput {
  /** Empty for every command. */
  readonly command: string;
  /** Names of events, with commas between them; empty for all. */
  readonly types: string;
  /** Empty for every task. */
  readonly task: string;
  /** `summary` counts events instead of telling each; those of `task` are told all the same. */
  readonly view: string;
}

/** What a feed tells. */
export interface FeedWish {
  /** Events that are told one by one; undefined for none. */
  readonly wants?: ((event: TaskEvent) => boolean) | undefined;
  readonly isSummary?: boolean;
}

/** Whoever reads a feed; nothing waits for it. */
export interface FeedReader {
  /** False when it cannot take the event. */
  readonly hear: (event: TaskEvent) => boolean;
  readonly hearSummary: (summary: FeedSummary) => boolean;
  /** Comes regularly, so that the other end knows that nothing is wrong. */
  readonly beat: () => void;
  readonly end: (code: ErrorCode) => void;
}

export const watchEvents: Operation<WatchEventsInput, OpenFeed> = {
  name: "watch_events",
  access: "viewer",
  scope: undefined,
  forEveryTenant: true,
  audit: { of: "other tenants" },
  run: async (server, call, input) => {
    const wish = wishOf(input);
    if (!wish.ok) return wish;
    const refused = refusalOfFeed(server, call, wish.value);
    return refused ?? { ok: true, value: new OpenFeed(server, call, wish.value) };
  },
};

/** Why no other feed may be opened. */
export function refusalOfFeed(
  { feed, summaries }: Server,
  call: Call,
  { wants, isSummary = false }: FeedWish,
): Refusal | undefined {
  const tenantId = askedTenant(call);
  const isOverloaded =
    (wants !== undefined && feed.size >= limits.feedsMax) ||
    (isSummary && summaries.size >= limits.summaryFeedsMax);
  if (isOverloaded) return refusal("overloaded", "too many event feeds are open; try again");
  const isFull =
    (wants !== undefined && feed.sizeOf(tenantId) >= limits.feedsPerTenantMax) ||
    (isSummary && summaries.sizeOf(tenantId) >= limits.summaryFeedsPerTenantMax);
  return isFull ? refusal("too_many_feeds") : undefined;
}

const beatMs = 15_000;

/** A slot among the feeds, taken until it is closed or ends. */
export class OpenFeed {
  readonly #server: Server;
  readonly #call: Call;
  readonly #stops: (() => void)[] = [];
  #reader: FeedReader | undefined;
  #ended: ErrorCode | undefined;
  #cancelBeat: () => void = () => {};
  #cancelExpiry: () => void = () => {};

  constructor(server: Server, call: Call, { wants, isSummary = false }: FeedWish) {
    this.#server = server;
    this.#call = call;
    const tenantId = askedTenant(call);
    const end = (code: ErrorCode): void => this.#end(code);
    const fed = (isTold: boolean): void => server.events.eventFed(isTold ? "told" : "missed");
    if (wants !== undefined) {
      const hear = (event: TaskEvent): void => {
        if (this.#reader !== undefined && wants(event)) fed(this.#reader.hear(event));
      };
      this.#stops.push(server.feed.listen({ tenantId, hear, end }));
    }
    if (isSummary) {
      const hear = (summary: FeedSummary): void => {
        if (this.#reader !== undefined) fed(this.#reader.hearSummary(summary));
      };
      this.#stops.push(server.summaries.listen(tenantId, { hear, end }));
    }
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
    for (const stop of this.#stops) stop();
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

/** What the caller asked for. */
function wishOf({ command, types, task, view }: WatchEventsInput): Answer<FeedWish> {
  const isOne = (event: TaskEvent): boolean => event.taskId === task;
  if (view === "summary") {
    if (command !== "" || types !== "") {
      return refusal(
        "invalid_argument",
        "a summary counts all events; leave 'command' and 'type' away, or leave 'view' away",
      );
    }
    return { ok: true, value: { isSummary: true, wants: task === "" ? undefined : isOne } };
  }
  if (view !== "") return refusal("invalid_argument", "invalid 'view' (summary, or leave it away)");
  const wants = wanted(command, types);
  if (!wants.ok || task === "")
    return wants.ok ? { ok: true, value: { wants: wants.value } } : wants;
  return { ok: true, value: { wants: (event) => isOne(event) && wants.value(event) } };
}

function wanted(command: string, types: string): Answer<(event: TaskEvent) => boolean> {
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
