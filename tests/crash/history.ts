/**
 * Everything that clients of one data directory were told, over all lives of the server, and the
 * comparison of that with what is there.
 */
import type { ApiClient, TaskJson } from "../e2e/api-client.ts";
import type { StoreContents } from "./check-store.ts";
import type { Place, Seen, TaskStory } from "./task-story.ts";

const places: Readonly<Record<string, Place>> = {
  PENDING_LIST: "ready",
  DELAYED_ZSET: "delayed",
  HELD_SET: "held",
  INPROG_SET: "leased",
  DLQ_SET: "dead",
  NONE: "done",
};

export class History {
  readonly stories: TaskStory[] = [];
  readonly byId: Map<string, TaskStory> = new Map();
  readonly problems: string[] = [];
  /** Requests that were answered, by verb. */
  readonly acknowledged: Map<string, number> = new Map();
  /** Looks at tasks and results that agreed with what was acknowledged. */
  looks = 0;
  /** Tasks that claims without an answer may have taken since nobody has been looking. */
  claimsInDoubt = 0;
  /** What happened to them since the last look is not verified yet. */
  readonly touched: Set<TaskStory> = new Set();

  acknowledge(verb: string): void {
    this.acknowledged.set(verb, (this.acknowledged.get(verb) ?? 0) + 1);
  }

  get acknowledgements(): number {
    return [...this.acknowledged.values()].reduce((sum, count) => sum + count, 0);
  }

  note(problems: readonly string[]): void {
    this.problems.push(...problems);
  }

  /** The task exists under this id, says the server. */
  created(story: TaskStory, id: string): void {
    this.note(story.created(id));
    const other = this.byId.get(id);
    if (other !== undefined && other !== story) this.note([`${story} is the same as ${other}`]);
    this.byId.set(id, story);
  }

  /** Which task a payload was written for; known also when its creation was not acknowledged. */
  storyOf(payload: string): TaskStory | undefined {
    const number = /^\{"n":(\d+),/.exec(payload)?.[1];
    return number === undefined ? undefined : this.stories[Number(number)];
  }

  get held(): TaskStory[] {
    return this.stories.filter(({ state }) => state === "held");
  }

  /** Looks at these tasks, and sends every key without an answer again. */
  async verifyOverHttp(api: ApiClient, stories: Iterable<TaskStory>): Promise<void> {
    const queue = [...stories];
    const look = async (): Promise<void> => {
      for (let story = queue.pop(); story !== undefined; story = queue.pop()) {
        await this.#sendKeyAgain(api, story);
        if (story.id === "") continue;
        this.note(story.check(await lookAt(api, story), () => this.#takeClaimInDoubt()));
        this.looks += 1;
        this.touched.delete(story);
      }
    };
    await Promise.all(Array.from({ length: 32 }, look));
  }

  /** Compares all of it with a store that no server has open. */
  verifyStore(store: StoreContents): void {
    this.note(store.problems);
    const found = new Map<TaskStory, Seen>();
    for (const [id, task] of store.tasks) {
      const payload = store.payloads.get(id) ?? "";
      const story = this.storyOf(payload);
      if (story === undefined) {
        this.note([`task ${id} was never sent`]);
        continue;
      }
      if (found.has(story)) this.note([`${story} is there twice, also as ${id}`]);
      this.created(story, id);
      const result = store.results.get(id);
      found.set(story, {
        place: task.place.in,
        attempts: task.attempts,
        leaseToken: task.leaseToken,
        ...(task.place.in === "leased" ? { untilMs: task.place.untilMs } : {}),
        payload,
        result: result === undefined ? undefined : { ...result, record: "" },
      });
      if (task.idempotencyKey !== story.idempotencyKey) this.note([`${story} has another key`]);
    }
    for (const story of this.stories) {
      this.note(story.check(found.get(story), () => this.#takeClaimInDoubt()));
      this.looks += 1;
    }
    this.touched.clear();
    this.claimsInDoubt = 0;
  }

  #takeClaimInDoubt(): boolean {
    this.claimsInDoubt -= 1;
    return this.claimsInDoubt >= 0;
  }

  /** The same request twice: one task, whether or not the first one got through. */
  async #sendKeyAgain(api: ApiClient, story: TaskStory): Promise<void> {
    if (story.idempotencyKey === "") return;
    const wasThere = story.state !== "unknown";
    const reply = await api.create(story.body);
    if (reply.status !== 202) {
      this.note([`${story}: its key answered ${reply.status} ${reply.text}`]);
      return;
    }
    const replayed = reply.headers["idempotent-replayed"] === "true";
    if (wasThere && !replayed) this.note([`${story}: its key made a second task`]);
    this.created(story, (JSON.parse(reply.text) as TaskJson).id);
  }
}

/** The result is asked for first where there should be one: its answer holds the task, too. */
async function lookAt(api: ApiClient, story: TaskStory): Promise<Seen | undefined> {
  const mayHaveEnded = story.state === "ended" || story.doubt !== undefined;
  const seen = mayHaveEnded ? await lookAtResult(api, story.id) : undefined;
  if (seen !== undefined) return seen;
  const task = await api.task(story.id);
  if (task === undefined) return undefined;
  const isOver = task.status === "COMPLETED" || task.status === "FAILED";
  return (isOver ? await lookAtResult(api, story.id) : undefined) ?? seenOf(task, "");
}

async function lookAtResult(api: ApiClient, id: string): Promise<Seen | undefined> {
  const reply = await api.get(`/tasks/${id}/result`);
  if (reply.status !== 200) return undefined;
  const { task } = JSON.parse(reply.text) as { task: TaskJson };
  return seenOf(task, recordIn(reply.text));
}

function seenOf(task: TaskJson, record: string): Seen {
  return {
    place: places[task.lastKnownLocation] ?? "ready",
    attempts: task.attempts ?? 0,
    leaseToken: task.leaseToken ?? 0,
    payload: task.payload,
    result: record === "" ? undefined : { ...parseRecord(record), record },
  };
}

/** The text of the record in an answer, byte for byte. */
function recordIn(text: string): string {
  const end = text.indexOf(',"task":{"id":');
  return text.slice('{"result":'.length, end);
}

/** The members of a record; what the worker sent as its text, not as what it means. */
export function parseRecord(record: string): {
  status: "COMPLETED" | "FAILED";
  resultJson: string;
  error: string;
} {
  const { status, error } = JSON.parse(record) as {
    status: "COMPLETED" | "FAILED";
    error?: string;
  };
  const start = record.indexOf('"result":');
  const end = record.lastIndexOf(error === undefined ? ',"completedAt":' : ',"error":');
  const resultJson = start < 0 ? "" : record.slice(start + '"result":'.length, end);
  return { status, resultJson, error: error ?? "" };
}
