/**
 * Reports what happens to the tasks of the caller's tenant, or of all tenants, from now on. The feed ends
 * with the caller's token, with the server, or when the caller leaves.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf, type TaskId } from "@codeq/queue";
import { askedTenant } from "../../edge/access/identity.ts";
import { bindInput, type InputOf } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import type { FeedEvent } from "../../telemetry/feed.ts";
import type { FeedSummary } from "../../telemetry/feed-summaries.ts";

/** The events that a feed reports. */
export interface FeedWish {
  /** Events that are reported one by one; undefined for none. */
  readonly wants?: ((event: FeedEvent) => boolean) | undefined;
  readonly isSummary?: boolean;
  /** The reader is a browser that may watch this task only. */
  readonly publicTask?: TaskId | undefined;
}

/** The reader of a feed; nothing waits for it. */
export interface FeedReader {
  /** False when it cannot take the event. */
  readonly hear: (event: FeedEvent) => boolean;
  readonly hearSummary: (summary: FeedSummary) => boolean;
  /** Comes regularly, so that the other end knows that nothing is wrong. */
  readonly beat: () => void;
  readonly end: (code: ErrorCode) => void;
}

export const watchEvents = bindInput(api.events.watchEvents, {
  forEveryTenant: true,
  run: (server, call, input): Answer<OpenFeed> => {
    const wish = wishOf(input);
    if (!wish.ok) return wish;
    const refused = refusalOfFeed(server, call, wish.value);
    return refused ?? { ok: true, value: new OpenFeed(server, call, wish.value) };
  },
});

/** Why no other feed may be opened. */
export function refusalOfFeed(
  { feed, summaries }: Server,
  call: Call,
  { wants, isSummary = false, publicTask }: FeedWish,
): Refusal | undefined {
  const tenantId = askedTenant(call);
  if (publicTask !== undefined) {
    const hasRoom = feed.hasRoomForBrowser(call.identity.tenantId, publicTask);
    return hasRoom ? undefined : refusal("too_many_feeds");
  }
  const isOverloaded =
    (wants !== undefined && feed.size >= limits.feedsMax) ||
    (isSummary && summaries.size >= limits.summaryFeedsMax);
  if (isOverloaded) return refusal("overloaded", "too many event feeds are open; try again");
  const isFull =
    (wants !== undefined && feed.sizeOf(tenantId) >= limits.feedsPerTenantMax) ||
    (isSummary && summaries.sizeOf(tenantId) >= limits.summaryFeedsPerTenantMax);
  return isFull ? refusal("too_many_feeds") : undefined;
}

/** A reader of a summary notices within seconds that the server hangs; other readers only keep a connection open. */
const beatMs = { summary: 2000, other: 15_000 };

/** A slot among the feeds, taken until it is closed or ends. */
export class OpenFeed {
  readonly #server: Server;
  readonly #call: Call;
  readonly #stops: (() => void)[] = [];
  readonly #beatMs: number;
  #reader: FeedReader | undefined;
  #ended: ErrorCode | undefined;
  #cancelBeat: () => void = () => {};
  #cancelExpiry: () => void = () => {};

  constructor(server: Server, call: Call, { wants, isSummary = false, publicTask }: FeedWish) {
    this.#server = server;
    this.#call = call;
    this.#beatMs = isSummary ? beatMs.summary : beatMs.other;
    const tenantId = askedTenant(call);
    const end = (code: ErrorCode): void => this.#end(code);
    const fed = (isSent: boolean): void => server.events.eventFed(isSent ? "sent" : "missed");
    if (wants !== undefined) {
      const hear = (event: FeedEvent): void => {
        if (this.#reader !== undefined && wants(event)) fed(this.#reader.hear(event));
      };
      const browser = publicTask && { tenantId: call.identity.tenantId, publicTask };
      this.#stops.push(server.feed.listen({ tenantId, hear, end, ...browser }));
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

  /** The token was revoked, or the client has disconnected. */
  #cutOff(): void {
    if (this.#call.identity.isRevoked()) this.#end("token_revoked");
    else this.close();
  }

  #beatLater(): void {
    this.#cancelBeat = this.#server.clock.after(this.#beatMs, () => {
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

type Wish = InputOf<typeof api.events.watchEvents>;

/** What the caller asked for. */
function wishOf(asked: Wish): Answer<FeedWish> {
  const { command, types, task, view } = asked;
  const isOne = (event: FeedEvent): boolean => event.taskId === task;
  if (view === "summary") {
    if (command !== "" || types !== "") {
      return refusal(
        "invalid_argument",
        "a summary counts all events; leave 'command' and 'type' away, or leave 'view' away",
      );
    }
    return { ok: true, value: { isSummary: true, wants: task === "" ? undefined : isOne } };
  }
  const wants = wanted(asked);
  if (!wants.ok || task === "")
    return wants.ok ? { ok: true, value: { wants: wants.value } } : wants;
  return { ok: true, value: { wants: (event) => isOne(event) && wants.value(event) } };
}

function wanted({ command, types }: Wish): Answer<(event: FeedEvent) => boolean> {
  if (command !== "" && !limits.commandPattern.test(command)) return refusal("invalid_command");
  const names = types === "" ? undefined : new Set(types.split(","));
  const queue = queueOf(command);
  return {
    ok: true,
    value: (event) =>
      names?.has(event.event) !== false && (queue === "" || queueOf(event.command) === queue),
  };
}
