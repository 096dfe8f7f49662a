/**
 * What must hold when everything has come to rest: the counters of the server, what it stored, and
 * what its clients were told are one and the same.
 */
import type { Task, TaskId } from "@codeq/queue";
import type { StoreContents } from "../crash/check-store.ts";
import type { Ledger, Story } from "./ledger.ts";

/** The samples of a scrape, by name and labels as they are written. */
export type Scrape = ReadonlyMap<string, number>;

export function parseScrape(text: string): Scrape {
  const samples = text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))] as const;
    });
  return new Map(samples);
}

/** All samples of a metric, whose labels contain the given text. */
export function sumOf(scrape: Scrape, name: string, labels = ""): number {
  let sum = 0;
  for (const [sample, value] of scrape) {
    const isIt = sample === name || sample.startsWith(`${name}{`);
    if (isIt && sample.includes(labels)) sum += value;
  }
  return sum;
}

export interface Places {
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly dead: number;
}

export function placesIn(store: StoreContents): Places {
  const places = {
    ready: 0,
    delayed: 0,
    held: 0,
    leased: 0,
    completed: 0,
    failed: 0,
    cancelled: 0,
    dead: 0,
  };
  for (const { place } of store.tasks.values()) {
    places[place.in === "done" ? place.how : place.in] += 1;
  }
  return places;
}

/** The counters and gauges of the last scrape against the contents of the store. */
export function compareCounters(scrape: Scrape, store: StoreContents): string[] {
  const places = placesIn(store);
  const expected: readonly (readonly [string, string, number])[] = [
    ["codeq_task_created_total", "", store.tasks.size],
    ["codeq_task_completed_total", 'status="COMPLETED"', places.completed],
    [
      "codeq_task_completed_total",
      'status="FAILED"',
      places.failed + places.cancelled + places.dead,
    ],
    ["codeq_queue_depth", 'queue="ready"', places.ready],
    ["codeq_queue_depth", 'queue="delayed"', places.delayed],
    ["codeq_queue_depth", 'queue="in_progress"', places.leased],
    ["codeq_queue_depth", 'queue="dlq"', places.dead],
    ["codeq_dlq_depth", "", places.dead],
    ["codeq_quarantined_records_total", "", 0],
  ];
  return expected.flatMap(([name, labels, stored]) => {
    const counted = sumOf(scrape, name, labels);
    return counted === stored ? [] : [`${name}{${labels}} is ${counted}, stored are ${stored}`];
  });
}

/** Nothing is left of any stream, and nothing is left to do. */
export function compareRest(scrape: Scrape): string[] {
  const atRest = [
    ["codeq_streams_open", ""],
    ["codeq_connections", 'listener="grpc"'],
    ["codeq_held_readys", ""],
    ["codeq_waiters", ""],
    ["codeq_queue_depth", 'queue="ready"'],
    ["codeq_queue_depth", 'queue="delayed"'],
    ["codeq_queue_depth", 'queue="in_progress"'],
  ] as const;
  return atRest.flatMap(([name, labels]) => {
    const left = sumOf(scrape, name, labels);
    return left === 0 ? [] : [`${name}{${labels}} is ${left} at the end`];
  });
}

/** Every create that was acknowledged is there, once, and ended as its worker was told. */
export function compareTold(ledger: Ledger, store: StoreContents): string[] {
  const problems = [...store.problems];
  const found = new Map<Story, TaskId>();
  for (const [id, task] of store.tasks) {
    const story = ledger.storyOf(store.payloads.get(id) ?? "");
    if (story === undefined) problems.push(`${id} was never sent`);
    else if (found.has(story))
      problems.push(`${story.n} is there twice: ${found.get(story)}, ${id}`);
    else {
      found.set(story, id);
      problems.push(...compareStory(story, task));
    }
  }
  for (const story of ledger.stories) {
    if (story.id !== "" && !found.has(story)) problems.push(`${story.n}, ${story.id}, is lost`);
  }
  return problems;
}

function compareStory(story: Story, task: Task): string[] {
  const { place } = task;
  const stored = place.in === "done" ? place.how : place.in === "dead" ? "buried" : place.in;
  if (story.id !== "" && story.id !== task.id) return [`${story.n} is ${story.id} and ${task.id}`];
  if (story.told === "nothing" || story.told === "created") return [];
  return story.told === stored ? [] : [`${task.id} was told as ${story.told} and is ${stored}`];
}
