/**
 * An event feed as server-sent events. A slow reader delays no other reader and costs a bounded amount of
 * memory: events that it misses are counted, and `missed` is sent in their place.
 *
 *   following   events are buffered until the reader reads them; ends when the buffer is full
 *   behind      events are counted; ends when the reader has read half of the buffer
 *   ended       the last event says why; the connection of a reader that does not read it is closed
 */
import { Readable } from "node:stream";
import { type ErrorCode, errors, type WireOf } from "@codeq/protocol";
import type { FeedEnd, FeedGap } from "@codeq/protocol/api";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import type { FeedEvent } from "../../telemetry/feed.ts";
import type { OpenFeed } from "./watch-events.ts";

/** The buffer for one reader, and for a browser, of which there may be more. */
const heldCharsMax = 512 * 1024;
const heldForBrowserCharsMax = 64 * 1024;
/** The most that is handed to the connection at once. */
const chunkChars = 64 * 1024;
/** How long a reader waits before it reconnects. */
const retryMs = 1000;

export interface StreamAbout {
  /** JSON text of the first event. */
  readonly first?: string;
  /** JSON text of an event, for readers that are not shown everything. */
  readonly show?: (event: FeedEvent) => string;
  readonly isForBrowser?: boolean;
  /** The feed ends after the first event. */
  readonly isOver?: boolean;
  /** Whether the feed ends after this event. */
  readonly isLast?: (event: FeedEvent) => boolean;
  /** JSON text of the event `result` at the end; undefined when there is none. */
  readonly result?: () => Promise<string | undefined>;
}

export class EventStream extends Readable {
  readonly #feed: OpenFeed;
  readonly #codec: JsonCodec;
  #held: string[] = [];
  #heldChars = 0;
  #missed = 0;
  #isWanted = false;
  #isOver = false;

  readonly #about: StreamAbout;

  constructor(feed: OpenFeed, codec: JsonCodec, about: StreamAbout = {}) {
    super();
    this.#feed = feed;
    this.#codec = codec;
    this.#about = about;
    this.#hold(`retry: ${retryMs}\n\n`);
    if (about.first !== undefined) this.#hold(eventText("task", about.first));
    if (about.isOver === true) {
      void this.#conclude();
      return;
    }
    feed.readBy({
      hear: (event) => this.#hear(event),
      hearSummary: (summary) => this.#take(eventText("summary", this.#codec.summary(summary))),
      beat: () => this.#beat(),
      end: (code) => this.#end(code),
    });
  }

  override _read(): void {
    this.#isWanted = true;
    this.#send();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#feed.close();
    this.#held = [];
    done(error);
  }

  #hear(event: FeedEvent): boolean {
    const shown = this.#about.show?.(event) ?? this.#codec.event(event);
    const text = eventText(event.event, shown);
    const isTaken = this.#take(text);
    if (isTaken && this.#about.isLast?.(event) === true) void this.#conclude();
    return isTaken;
  }

  /** False when the buffer is full. */
  #take(text: string): boolean {
    const most = this.#about.isForBrowser === true ? heldForBrowserCharsMax : heldCharsMax;
    const room = this.#missed > 0 ? most / 2 : most;
    if (this.#heldChars + text.length > room) {
      this.#missed += 1;
      return false;
    }
    this.#holdMissed();
    this.#hold(text);
    this.#send();
    return true;
  }

  /** Sends the result of the task, then ends the feed. */
  async #conclude(): Promise<void> {
    this.#feed.close();
    // The feed has already reported the end of the task; a reader can still fetch the result.
    const result = await this.#about.result?.().catch(() => undefined);
    if (this.destroyed) return;
    if (result !== undefined) this.#hold(eventText("result", result));
    this.#isOver = true;
    this.#send();
  }

  /** Sends a heartbeat, unless the reader has unread events. */
  #beat(): void {
    if (!this.#isWanted) return;
    this.#hold(":\n\n");
    this.#send();
  }

  #end(code: ErrorCode): void {
    this.#holdMissed();
    const reason = errors[code].text;
    const last: WireOf<typeof FeedEnd> = { event: "end", code, reason };
    this.#hold(eventText("end", JSON.stringify(last)));
    this.#isOver = true;
    this.#send();
    setImmediate(() => {
      if (!this.readableEnded) this.destroy();
    });
  }

  #holdMissed(): void {
    if (this.#missed === 0) return;
    const gap: WireOf<typeof FeedGap> = { event: "missed", count: this.#missed };
    this.#hold(eventText("missed", JSON.stringify(gap)));
    this.#missed = 0;
  }

  #hold(text: string): void {
    this.#held.push(text);
    this.#heldChars += text.length;
  }

  #send(): void {
    if (!this.#isWanted) return;
    if (this.#held.length === 0) this.#holdMissed();
    if (this.#held.length === 0) {
      if (this.#isOver) this.push(null);
      return;
    }
    let count = 0;
    let chars = 0;
    while (count < this.#held.length && chars < chunkChars) {
      chars += this.#held[count]?.length ?? 0;
      count += 1;
    }
    const chunk = this.#held.splice(0, count).join("");
    this.#heldChars -= chars;
    this.#isWanted = false;
    this.push(chunk);
    if (this.#isOver && this.#held.length === 0) this.push(null);
  }
}

function eventText(name: string, json: string): string {
  return `event: ${name}\ndata: ${json}\n\n`;
}
