/**
 * Many clients at once, each doing something at random and writing down what it was told. A request
 * is in doubt from when it is sent until its answer is there.
 */
import type { SimRandom } from "@codeq/simulated";
import type { ApiClient, Reply, TaskJson } from "../e2e/api-client.ts";
import { type History, parseRecord } from "./history.ts";
import { nackReason, type Submission, TaskStory } from "./task-story.ts";

export interface LoadOptions {
  readonly api: ApiClient;
  readonly history: History;
  readonly random: SimRandom;
  /** Called after every acknowledgement. */
  readonly onAcknowledged: () => void;
  /** From then on a lost connection is expected. */
  readonly isDown: () => boolean;
}

const clients = 24;
const commands = ["alpha", "beta", "Gamma"];
const leaseSeconds = 600;

/** Runs until the server is gone. */
export async function runLoad(options: LoadOptions): Promise<void> {
  const load = new Load(options);
  await Promise.all(Array.from({ length: clients }, () => load.client()));
}

class Load {
  readonly #options: LoadOptions;
  readonly #held: TaskStory[];
  #isOver = false;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#held = options.history.held;
  }

  async client(): Promise<void> {
    while (!this.#isOver) {
      try {
        await this.#step();
      } catch (error) {
        this.#isOver = true;
        if (!this.#options.isDown()) this.#problem(`a request failed: ${String(error)}`);
      }
    }
  }

  async #step(): Promise<void> {
    const { random } = this.#options;
    const draw = random.next();
    if (draw < 0.3) return this.#create();
    if (draw < 0.35) return this.#createTwice();
    if (draw < 0.4) return this.#createMany();
    if (draw < 0.65) return this.#claim();
    const story = this.#held.splice(random.int(Math.max(1, this.#held.length)), 1)[0];
    if (story === undefined) return this.#claim();
    return this.#work(story);
  }

  async #work(story: TaskStory): Promise<void> {
    const draw = this.#options.random.next();
    if (draw < 0.15) return this.#heartbeat(story);
    if (draw < 0.3) return this.#giveBack(story, "nack");
    if (draw < 0.4) return this.#giveBack(story, "abandon");
    if (draw < 0.5) return this.#giveBack(story, "interrupt");
    if (draw < 0.9) return this.#submit(story);
    return this.#submitMany([story, ...this.#held.splice(0, 2)]);
  }

  async #create(): Promise<void> {
    const story = this.#newStory();
    this.#onCreated(story, await this.#post("create", "/tasks", story.body));
  }

  /** The same key at the same time on two connections. */
  async #createTwice(): Promise<void> {
    const story = this.#newStory("key");
    const replies = await Promise.all([
      this.#post("create", "/tasks", story.body),
      this.#post("create", "/tasks", story.body),
    ]);
    for (const reply of replies) this.#onCreated(story, reply);
    const replays = replies.filter(({ headers }) => headers["idempotent-replayed"] === "true");
    if (replays.length !== 1) this.#problem(`${story} was replayed ${replays.length} times`);
  }

  #onCreated(story: TaskStory, reply: Reply): void {
    if (reply.status !== 202) {
      this.#refused("create", reply, story);
      return;
    }
    const task = JSON.parse(reply.text) as TaskJson;
    if (task.payload !== story.payload) this.#problem(`${story} was answered with other contents`);
    this.#options.history.created(story, task.id);
  }

  async #createMany(): Promise<void> {
    const stories = [this.#newStory(), this.#newStory(), this.#newStory()];
    const body = `{"tasks":[${stories.map((story) => story.body).join(",")}]}`;
    const reply = await this.#post("create batch", "/tasks/batch", body);
    if (reply.status !== 200) return this.#refused("create batch", reply);
    const { results } = JSON.parse(reply.text) as { results: { task?: TaskJson }[] };
    for (const [at, story] of stories.entries()) {
      const task = results[at]?.task;
      if (task === undefined) this.#problem(`${story} was not created: ${reply.text}`);
      else this.#options.history.created(story, task.id);
    }
  }

  async #claim(): Promise<void> {
    const { random, history } = this.#options;
    const isBatch = random.next() < 0.3;
    const count = isBatch ? 4 : 1;
    const wanted = random.next() < 0.5 ? { commands: [random.pick(commands)] } : {};
    const more = isBatch ? { count } : { waitSeconds: random.int(2) };
    const path = isBatch ? "/tasks/claim/batch" : "/tasks/claim";
    history.claimsInDoubt += count;
    const untilMs = Date.now() + leaseSeconds * 1000;
    const reply = await this.#post("claim", path, { ...wanted, ...more, leaseSeconds });
    history.claimsInDoubt -= count;
    if (reply.status === 204) return;
    if (reply.status !== 200) return this.#refused("claim", reply);
    const parsed = JSON.parse(reply.text) as TaskJson & { tasks?: TaskJson[] };
    for (const task of parsed.tasks ?? [parsed]) this.#onClaimed(task, untilMs);
  }

  #onClaimed(task: TaskJson, untilMs: number): void {
    const { history } = this.#options;
    const story = history.storyOf(task.payload);
    if (story === undefined) {
      this.#problem(`claimed what nobody sent: ${task.id}`);
      return;
    }
    history.created(story, task.id);
    const { attempts = 0, leaseToken = 0, payload } = task;
    const seen = { place: "leased", attempts, leaseToken, untilMs, payload } as const;
    history.note(story.claimed({ ...seen, result: undefined }));
    history.touched.add(story);
    this.#held.push(story);
  }

  async #heartbeat(story: TaskStory): Promise<void> {
    const body = { extendSeconds: leaseSeconds, leaseToken: story.token };
    const untilMs = Date.now() + leaseSeconds * 1000;
    const reply = await this.#post("heartbeat", `/tasks/${story.id}/heartbeat`, body);
    if (reply.status !== 200) return this.#refused("heartbeat", reply, story);
    story.leasedUntilMs = untilMs;
    this.#held.push(story);
  }

  async #giveBack(story: TaskStory, verb: "nack" | "abandon" | "interrupt"): Promise<void> {
    const { history, random } = this.#options;
    const leaseToken = story.token;
    const nack = { delaySeconds: random.int(2), reason: nackReason, leaseToken };
    const body = verb === "nack" ? nack : { interrupted: verb === "interrupt", leaseToken };
    const path = `/tasks/${story.id}/${verb === "nack" ? "nack" : "abandon"}`;
    story.doubt = { verb };
    history.touched.add(story);
    const reply = await this.#post(verb, path, body);
    if (reply.status !== 200) return this.#refused(verb, reply, story);
    // Somebody may have been given the task again, and that answer may have been read first.
    if (story.doubt === undefined || story.token !== leaseToken) return;
    story.cameBack(verb);
    const buried = (JSON.parse(reply.text) as { status: string }).status === "dlq";
    if (buried !== (story.state === "ended")) this.#problem(`${story} answered ${reply.text}`);
  }

  async #submit(story: TaskStory): Promise<void> {
    const { history, random } = this.#options;
    const submission = this.#newSubmission(story);
    const body = submissionBody(story, submission);
    story.doubt = { verb: "submit", submission };
    history.touched.add(story);
    const reply = await this.#post("submit", `/tasks/${story.id}/result`, `{${body}}`);
    if (reply.status !== 200) return this.#refused("submit", reply, story);
    story.submitted(submission, reply.text);
    const { resultJson } = parseRecord(reply.text);
    if (resultJson !== submission.resultJson) this.#problem(`${story} answered ${reply.text}`);
    if (random.next() < 0.9) return;
    const again = await this.#post("submit again", `/tasks/${story.id}/result`, `{${body}}`);
    const told = again.text.replace(',"repeated":true}', "}");
    if (told !== reply.text) this.#problem(`${story} answered ${again.text} to a repeat`);
  }

  async #submitMany(stories: readonly TaskStory[]): Promise<void> {
    const items = stories.map((story) => {
      const submission = this.#newSubmission(story);
      story.doubt = { verb: "submit", submission };
      this.#options.history.touched.add(story);
      const text = `{"taskId":"${story.id}",${submissionBody(story, submission)}}`;
      return { story, submission, text };
    });
    const body = `{"results":[${items.map(({ text }) => text).join(",")}]}`;
    const reply = await this.#post("submit batch", "/tasks/batch/results", body);
    if (reply.status !== 200) return this.#refused("submit batch", reply);
    const { results } = JSON.parse(reply.text) as { results: { result?: unknown }[] };
    for (const [at, { story, submission }] of items.entries()) {
      if (results[at]?.result === undefined) this.#problem(`${story}: ${reply.text}`);
      else story.submitted(submission, "");
    }
  }

  #newStory(key: "key" | "perhaps" = "perhaps"): TaskStory {
    const { history, random } = this.#options;
    const number = history.stories.length;
    const isKeyed = key === "key" || random.next() < 0.3;
    const idempotencyKey = isKeyed ? `key ${number}/ü` : "";
    const maxAttempts = random.next() < 0.3 ? 2 : 1000;
    const padding = random.next() < 0.06 ? 100_000 : random.int(400);
    const payload =
      `{"n":${number}, "big":12345678901234567890,\t"text":"\\u00e9é\\"😀 ",` +
      `"padding":"${"x".repeat(padding)}"}`;
    const when = random.next();
    const isFarAway = when < 0.1;
    const soon = new Date(Date.now() + random.int(200)).toISOString();
    const delay = isFarAway ? `,"delaySeconds":7200` : when < 0.25 ? `,"runAt":"${soon}"` : "";
    const body =
      `{"command":"${random.pick(commands)}","priority":${random.int(10)},` +
      `"maxAttempts":${maxAttempts},"idempotencyKey":${JSON.stringify(idempotencyKey)},` +
      `"payload":${payload}${delay}}`;
    const parts = { number, payload, idempotencyKey, maxAttempts, isFarAway, body };
    const story = new TaskStory(parts);
    history.stories.push(story);
    history.touched.add(story);
    return story;
  }

  #newSubmission(story: TaskStory): Submission {
    if (this.#options.random.next() < 0.3) {
      return { status: "FAILED", resultJson: "", error: `failed at ${story.token}` };
    }
    const resultJson = `{"of": ${story.number}, "big":98765432109876543210,"by":${story.token}}`;
    return { status: "COMPLETED", resultJson, error: "" };
  }

  async #post(verb: string, path: string, body: unknown): Promise<Reply> {
    const { api, history, onAcknowledged } = this.#options;
    const reply = await api.post(path, body);
    if (reply.status < 300) {
      history.acknowledge(verb);
      onAcknowledged();
    }
    return reply;
  }

  #refused(verb: string, reply: Reply, story?: TaskStory): void {
    this.#problem(`${verb} of ${story} was answered with ${reply.status} ${reply.text}`);
  }

  #problem(problem: string): void {
    this.#options.history.note([problem]);
  }
}

function submissionBody(story: TaskStory, { status, resultJson, error }: Submission): string {
  const result = resultJson === "" ? "" : `,"result":${resultJson}`;
  const errorText = error === "" ? "" : `,"error":${JSON.stringify(error)}`;
  return `"status":"${status}"${result}${errorText},"leaseToken":${story.token}`;
}
