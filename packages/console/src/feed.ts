/**
 * The one feed of this tab: it says which queues changed, and what happens to the task on the page. While it
 * is open, queries are asked again when something happened and not by the clock. It is closed while the tab is
 * hidden, because browsers open few connections to one server; a lost feed is opened again, and until then
 * queries go back to asking by the clock.
 *
 *   closed    the tab is hidden, or nobody is signed in
 *   opening   asked for; queries ask by the clock
 *   open      tells what changed; leaves when the server or the network ends it
 */
import { apiHeaders, tenant, urlOf } from "./api.ts";
import { createStore } from "./store.ts";

/** When something last happened: to any task, to one queue, to the task on the page. */
interface Changed {
  all: number;
  task: number;
  /** Of queues that one summary had no room for. */
  others: number;
  readonly queues: Map<string, number>;
}

const againMsMin = 1000;
const againMsMax = 10_000;
/** The server shows a sign of life every 15 seconds. */
const silentMsMax = 40_000;
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
let hooks: FeedHooks = {
  onChange: () => {},
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

/** When something last happened that a query follows; 0 for never. */
export function changedMs({ queue, task }: Follows): number {
  if (task !== undefined) return task === watchedTask ? changed.task : 0;
  if (queue === undefined) return changed.all;
  return Math.max(changed.queues.get(queue.toLowerCase()) ?? 0, changed.others);
}

export interface FeedHooks {
  /** Something happened, or may have happened while the feed was away. */
  readonly onChange: () => void;
  /** The server may be gone. */
  readonly onLost: () => void;
  readonly isWanted: () => boolean;
  /** What happens now is counted, for a page that does not follow it. */
  readonly isCounting: () => boolean;
}

export function startFeed(given: FeedHooks): void {
  hooks = given;
  document.addEventListener("visibilitychange", adjustFeed);
  tenant.subscribe(reopen);
  setInterval(() => {
    if (openFeed !== undefined && Date.now() - heardMs > silentMsMax) reopen();
  }, silentMsMax / 4);
}

/** Opens or closes the feed as it is wanted now. */
export function adjustFeed(): void {
  if (hooks.isWanted() && !document.hidden) {
    if (openFeed === undefined && retryTimer === undefined) void read();
  } else {
    close();
  }
}

/** The task on the page, whose events are told one by one; empty for none. */
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
  heardMs = Date.now();
  const task = watchedTask === "" ? undefined : watchedTask;
  const url = urlOf({ path: "/v1/codeq/admin/events", query: { view: "summary", task } });
  try {
    const headers = apiHeaders();
    const signal = own.signal;
    const reply = await fetch(url, { headers, signal, credentials: "same-origin" });
    if (!reply.ok || reply.body === null) throw new Error(`${reply.status}`);
    // What happened before this moment is only known by asking.
    happened();
    isLive.set(true);
    againMs = againMsMin;
    await follow(reply.body);
  } catch {
    // Whatever the reason, queries ask by the clock until the feed is open again.
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
    heardMs = Date.now();
    const blocks = (text + value).split("\n\n");
    text = blocks.pop() ?? "";
    if (text.length > blockCharsMax) return;
    for (const block of blocks) hear(block);
  }
}

interface Told {
  readonly taskId?: string;
  readonly queues?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly others?: number;
}

function hear(block: string): void {
  const name = /^event: (.*)$/m.exec(block)?.[1];
  const data = /^data: (.*)$/m.exec(block)?.[1];
  if (name === undefined || data === undefined || name === "end") return;
  if (name === "missed") {
    happened();
    return;
  }
  const told = JSON.parse(data) as Told;
  if (name === "summary") hearSummary(told);
  else if (told.taskId === watchedTask) changed.task = Date.now();
  hooks.onChange();
}

function hearSummary({ queues = {}, others = 0 }: Told): void {
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
