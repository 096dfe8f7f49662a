/**
 * The event feed of this tab: which queues changed, and the events of the task on the page. While the feed is open,
 * queries are refreshed on events instead of by the clock. The feed is closed while the tab is hidden, because browsers
 * open few connections to one server. A lost feed is reopened; until then queries are refreshed by the clock. The server
 * sends a sign of life every 2 seconds. When it is late, one request asks whether the server still answers, so that a
 * proxy that holds the feed back is not mistaken for a server that hangs.
 *
 *   closed    the tab is hidden, or no user is signed in
 *   opening   requested; queries are refreshed by the clock
 *   open      reports changes, until the server or the network ends the feed
 */
import type { WireOf } from "@codeq/protocol";
import type { EventSummary, TaskEvent } from "@codeq/protocol/api";
import { apiHeaders, connection, heard, silentMsMax, tenant, urlOf, watchSilence } from "./api.ts";
import { createStore } from "./store.ts";

/** Times of the last events: of any task, of one queue, of the task on the page. */
interface Changed {
  all: number;
  task: number;
  /** For queues that did not fit into a summary. */
  others: number;
  readonly queues: Map<string, number>;
}

const againMsMin = 1000;
const againMsMax = 10_000;
const watchMs = 500;
/** A sign of life is late. */
const lateMs = 3000;
/** Between two looks: the machine was asleep, and the connection is probably gone. */
const asleepMs = 4 * watchMs + lateMs;
const blockCharsMax = 1024 * 1024;

export const isLive = createStore(false);
/** Events since the page was paused. */
export const missedEvents = createStore(0);

let changed = nothingChanged();
let watchedTask = "";
let openFeed: AbortController | undefined;
let againMs = againMsMin;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let heardMs = 0;
let watchedMs = 0;
let isProbed = false;
let hooks: FeedHooks = {
  onChange: () => {},
  onLate: () => {},
  onLost: () => {},
  isWanted: () => false,
  isCounting: () => false,
};

function nothingChanged(): Changed {
  return { all: 0, task: 0, others: 0, queues: new Map() };
}

/** Which events matter to a query. */
export interface Follows {
  readonly queue?: string;
  readonly task?: string;
}

/** Time of the last event that a query follows; 0 for none. */
export function changedMs({ queue, task }: Follows): number {
  if (task !== undefined) return task === watchedTask ? changed.task : 0;
  if (queue === undefined) return changed.all;
  return Math.max(changed.queues.get(queue.toLowerCase()) ?? 0, changed.others);
}

export interface FeedHooks {
  /** An event arrived, or the feed was closed and may have missed one. */
  readonly onChange: () => void;
  /** Nothing arrives: ask whether the server still answers. */
  readonly onLate: () => void;
  /** The server may be gone. */
  readonly onLost: () => void;
  readonly isWanted: () => boolean;
  /** The page is paused: events are only counted. */
  readonly isCounting: () => boolean;
}

export function startFeed(given: FeedHooks): void {
  hooks = given;
  document.addEventListener("visibilitychange", adjustFeed);
  tenant.subscribe(reopen);
  setInterval(watch, watchMs);
}

function watch(): void {
  if (document.hidden) return;
  const nowMs = Date.now();
  const wasAsleep = nowMs - watchedMs > asleepMs;
  watchedMs = nowMs;
  if (wasAsleep) {
    reopen();
    return;
  }
  const quietMs = openFeed === undefined ? 0 : nowMs - heardMs;
  if (quietMs > lateMs && !isProbed) {
    isProbed = true;
    hooks.onLate();
  }
  watchSilence(isLive.get());
  if (quietMs > silentMsMax) openFeed?.abort();
}

function hearLife(): void {
  heardMs = Date.now();
  isProbed = false;
  againMs = againMsMin;
  const { state } = connection.get();
  // While requests find no server, a feed that is still open changes nothing.
  if (state === "online" || state === "silent") heard();
}

export function adjustFeed(): void {
  if (hooks.isWanted() && !document.hidden) {
    if (openFeed === undefined && retryTimer === undefined) void read();
  } else {
    close();
  }
}

/** Sets the task whose single events the feed reports; empty for none. */
export function watchTask(id: string): void {
  if (watchedTask === id) return;
  watchedTask = id;
  changed.task = 0;
  reopen();
}

function reopen(): void {
  close();
  adjustFeed();
}

function close(): void {
  clearTimeout(retryTimer);
  retryTimer = undefined;
  openFeed?.abort();
  openFeed = undefined;
  isLive.set(false);
}

async function read(): Promise<void> {
  const own = new AbortController();
  openFeed = own;
  heardMs = watchedMs = Date.now();
  isProbed = false;
  const task = watchedTask === "" ? undefined : watchedTask;
  const url = urlOf({ path: "/v1/codeq/admin/events", query: { view: "summary", task } });
  try {
    const headers = apiHeaders();
    const signal = own.signal;
    const reply = await fetch(url, { headers, signal, credentials: "same-origin" });
    if (!reply.ok || reply.body === null) throw new Error(`${reply.status}`);
    // Events from before this moment are missing, so everything may have changed.
    happened();
    isLive.set(true);
    await follow(reply.body);
  } catch {
    // For any reason: queries are refreshed by the clock until the feed is open again.
  }
  if (openFeed !== own) return;
  close();
  hooks.onLost();
  retryTimer = setTimeout(() => {
    retryTimer = undefined;
    adjustFeed();
  }, againMs);
  againMs = Math.min(againMs * 2, againMsMax);
}

async function follow(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    hearLife();
    const blocks = (text + value).split("\n\n");
    text = blocks.pop() ?? "";
    if (text.length > blockCharsMax) return;
    for (const block of blocks) hear(block);
  }
}

function hear(block: string): void {
  const name = /^event: (.*)$/m.exec(block)?.[1];
  const data = /^data: (.*)$/m.exec(block)?.[1];
  if (name === undefined || data === undefined || name === "end") return;
  if (name === "missed") {
    happened();
    return;
  }
  const message = JSON.parse(data) as WireOf<typeof EventSummary | typeof TaskEvent>;
  if (message.event === "summary") hearSummary(message);
  else if (message.taskId === watchedTask) changed.task = Date.now();
  hooks.onChange();
}

function hearSummary({ queues, others = 0 }: WireOf<typeof EventSummary>): void {
  const nowMs = Date.now();
  changed.all = nowMs;
  if (others > 0) changed.others = nowMs;
  for (const queue of Object.keys(queues)) changed.queues.set(queue, nowMs);
  if (!hooks.isCounting()) return;
  const counts = Object.values(queues).flatMap((each) => Object.values(each));
  missedEvents.set(missedEvents.get() + others + counts.reduce((sum, each) => sum + each, 0));
}

/** Something may have happened anywhere. */
function happened(): void {
  const nowMs = Date.now();
  changed = { ...nothingChanged(), all: nowMs, task: nowMs, others: nowMs };
  hooks.onChange();
}
