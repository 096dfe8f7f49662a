/**
 * What clients of the soak sent and were told, in few bytes for each task: there are hundreds of
 * thousands. Whatever contradicts itself on the way is a problem.
 */

/** How far a task got, as far as anybody was told. */
export type Told = "nothing" | "created" | "completed" | "failed" | "buried";

export interface Story {
  readonly n: number;
  readonly command: string;
  readonly fillChars: number;
  /** Empty when the producer gave none. */
  readonly key: string;
  /** Where its result is to be posted; empty for nowhere. */
  readonly webhook: string;
  /** Empty until somebody was told. */
  id: string;
  told: Told;
  /** Who was told that it ended the task. */
  endedBy: string;
  /** The lease tokens that were seen, as bits; those from 31 on share one. */
  tokens: number;
}

const problemsShown = 50;
const bitsMax = 31;

export class Ledger {
  readonly stories: Story[] = [];
  readonly problems: string[] = [];
  /** Events by name, for the table at the end. */
  readonly counts: Map<string, number> = new Map();
  readonly #byId: Map<string, Story> = new Map();
  #problems = 0;

  count(what: string, times = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  total(what: string): number {
    return this.counts.get(what) ?? 0;
  }

  problem(text: string): void {
    this.#problems += 1;
    if (this.#problems <= problemsShown) this.problems.push(text);
    if (this.#problems === problemsShown + 1) this.problems.push("... and more");
  }

  add(fields: Omit<Story, "n" | "id" | "told" | "endedBy" | "tokens">): Story {
    const { command, fillChars, key, webhook } = fields;
    const n = this.stories.length;
    const story: Story = {
      n,
      command,
      fillChars,
      key,
      webhook,
      id: "",
      told: "nothing",
      endedBy: "",
      tokens: 0,
    };
    this.stories.push(story);
    return story;
  }

  /** The server says that the task exists under this id. */
  created(story: Story, id: string): void {
    const other = this.#byId.get(id);
    if (other !== undefined && other !== story) this.problem(`${id} is ${other.n} and ${story.n}`);
    if (story.id !== "" && story.id !== id) this.problem(`${story.n} is ${story.id} and ${id}`);
    story.id = id;
    if (story.told === "nothing") story.told = "created";
    this.#byId.set(id, story);
  }

  /** A worker got the task; undefined when nobody has ever sent it. */
  delivered(task: { id: string; payload: string; leaseToken: number }): Story | undefined {
    this.count("deliveries");
    const story = this.storyOf(task.payload);
    if (story === undefined) {
      this.problem(`${task.id} was delivered and never sent`);
      return undefined;
    }
    if (story.id !== "" && story.id !== task.id) {
      this.problem(`${story.n} is ${story.id} and was delivered as ${task.id}`);
    }
    story.id = task.id;
    this.#byId.set(task.id, story);
    const bit = 1 << Math.min(task.leaseToken, bitsMax);
    if (task.leaseToken < bitsMax && (story.tokens & bit) !== 0) {
      this.problem(`${task.id} was delivered twice with token ${task.leaseToken}`);
    }
    story.tokens |= bit;
    return story;
  }

  /** The server has acknowledged the end of the task. */
  ended(id: string, told: "completed" | "failed" | "buried", by: string): void {
    this.count(told);
    const story = this.#byId.get(id);
    if (story === undefined) {
      this.problem(`${id} was ended by ${by} and is unknown`);
      return;
    }
    const isRepeat = story.endedBy === by && story.told === told;
    if (story.endedBy !== "" && !isRepeat) {
      this.problem(`${id} was ${story.told} by ${story.endedBy} and ${told} by ${by}`);
    }
    story.told = told;
    story.endedBy = by;
  }

  /** Which task a payload was written for. */
  storyOf(payload: string): Story | undefined {
    const digits = /^\{"n":(\d+),/.exec(payload)?.[1];
    return digits === undefined ? undefined : this.stories[Number(digits)];
  }
}

export function payloadOf({ n, fillChars }: Story): string {
  return `{"n":${n},"fill":"${"x".repeat(fillChars)}"}`;
}
