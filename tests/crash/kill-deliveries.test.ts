/**
 * kill -9 while results are delivered, and while those that were refused are sent again. The webhook of every
 * result that was acknowledged arrives, and so does every redelivery that was; what was seen as delivered stays
 * delivered and is not sent again; and the log of a webhook agrees with its receiver.
 *
 * CODEQ_SEED repeats the choices of a run; what the operating system does in between is its own.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SimRandom } from "@codeq/simulated";
import { campaignLength } from "../campaign-length.ts";
import { ApiClient, type Reply } from "../e2e/api-client.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { type WebhookPath, WebhookReceiver } from "./webhook-receiver.ts";

const seed = process.env["CODEQ_SEED"] ?? String(Date.now());
const kills = campaignLength({ short: 2, long: 5 });
const tasksPerRound = 40;
/** A webhook that has not come to its end by then, with waits of a second, is lost. */
const lostAfterMs = 30_000;
const paths: readonly WebhookPath[] = ["/good", "/late", "/refused"];

interface CalledTask {
  readonly id: string;
  readonly path: WebhookPath;
  /** Its end was acknowledged. */
  hasEnded: boolean;
  /** It was refused, and to send it again was acknowledged. */
  isSentAgain: boolean;
  /** How many requests there had been when it was seen as delivered. */
  deliveredAfter: number | undefined;
}

interface DeliveryLog {
  readonly state: "none" | "pending" | "waiting" | "delivered" | "failed";
  readonly total: number;
  readonly tries: readonly { readonly status?: number }[];
}

test("webhooks and redeliveries survive kill -9", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  await using receiver = await WebhookReceiver.start();
  const run = new DeliveryRun(receiver, directory.path);
  t.after(() => run.dispose());
  for (let round = 1; round <= kills; round += 1) await run.killWhileDelivering();
  await run.lookAtEverything();
  t.diagnostic(`${receiver.total} webhooks of ${run.tasks.length} tasks, seed ${seed}`);
});

class DeliveryRun {
  readonly tasks: CalledTask[] = [];
  readonly #receiver: WebhookReceiver;
  readonly #dataDir: string;
  readonly #random: SimRandom = new SimRandom(seed);
  #server: ServerProcess | undefined;

  constructor(receiver: WebhookReceiver, dataDir: string) {
    this.#receiver = receiver;
    this.#dataDir = dataDir;
  }

  async dispose(): Promise<void> {
    await this.#server?.kill();
  }

  async killWhileDelivering(): Promise<void> {
    const receiver = this.#receiver;
    const { server, api } = await this.#start();
    for (const task of this.tasks) await this.#look(api, task);
    let isDown = false;
    // Fewer than what the tasks of this round lead to.
    const killAt = receiver.total + 5 + this.#random.int(tasksPerRound);
    receiver.onRequest = () => {
      if (receiver.total < killAt || isDown) return;
      isDown = true;
      server.signal("SIGKILL");
    };
    try {
      const refused = this.tasks.filter(({ path, isSentAgain }) => {
        return path === "/refused" && !isSentAgain;
      });
      const work = await Promise.allSettled([this.#endTasks(api), this.#sendAgain(api, refused)]);
      for (const each of work) if (each.status === "rejected") throw each.reason;
      for (;;) for (const task of this.tasks) await this.#look(api, task);
    } catch (error) {
      if (!isDown || error instanceof assert.AssertionError) throw error;
    }
    api.close();
    assert.equal((await server.exited).signal, "SIGKILL");
  }

  /** Everything comes to its end, and agrees with what was acknowledged and received. */
  async lookAtEverything(): Promise<void> {
    const { server, api } = await this.#start();
    for (const task of this.tasks) {
      const { id } = task;
      const status = (await api.task(id))?.status;
      if (task.hasEnded) assert.equal(status, "COMPLETED", id);
      if (status === "COMPLETED") this.#compare(task, await this.#finalLog(api, task));
      else assert.deepEqual(this.#receiver.answers(id), [], `${id} was reported and had not ended`);
    }
    api.close();
    assert.equal((await server.stop()).code, 0);
  }

  async #start(): Promise<{ server: ServerProcess; api: ApiClient }> {
    const server = await startServer({
      dataDir: this.#dataDir,
      env: {
        CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true",
        RESULT_WEBHOOK_BASE_BACKOFF_SECONDS: "1",
        RESULT_WEBHOOK_MAX_BACKOFF_SECONDS: "1",
      },
    });
    this.#server = server;
    return { server, api: new ApiClient(server.port, 8) };
  }

  /** Creates tasks, claims them and ends them, some at a time. */
  async #endTasks(api: ApiClient): Promise<void> {
    for (let left = tasksPerRound; left > 0; left -= 8) {
      const wanted = Array.from({ length: 8 }, () => this.#random.pick(paths));
      const tasks = wanted.map((path) => {
        const webhook = this.#receiver.urlOf(path);
        return { command: "work", payload: path, webhook };
      });
      const created = sound(await api.post("/tasks/batch", { tasks }));
      const ended = (created["results"] as { task: { id: string } }[]).map(({ task }, at) => {
        const path = wanted[at] as WebhookPath;
        return {
          id: task.id,
          path,
          hasEnded: false,
          isSentAgain: false,
          deliveredAfter: undefined,
        };
      });
      this.tasks.push(...ended);
      const byId = new Map(this.tasks.map((task) => [task.id, task]));
      const claimed = sound(await api.post("/tasks/claim/batch", { count: 100 }));
      const ids = ((claimed["tasks"] ?? []) as { id: string }[]).map(({ id }) => id);
      const results = ids.map((taskId) => ({ taskId, status: "COMPLETED", result: {} }));
      const answered = sound(await api.post("/tasks/batch/results", { results }));
      for (const { taskId, error } of answered["results"] as { taskId: string; error?: string }[]) {
        const task = byId.get(taskId);
        if (task !== undefined && error === undefined) task.hasEnded = true;
      }
    }
  }

  /** One by one, or all that failed, by turns. */
  async #sendAgain(api: ApiClient, refused: readonly CalledTask[]): Promise<void> {
    const failed: CalledTask[] = [];
    for (const task of refused) {
      const { state } = await this.#look(api, task);
      if (state === "failed") failed.push(task);
    }
    for (const { id } of failed) this.#receiver.welcome.add(id);
    if (this.#random.next() < 0.5) {
      for (const task of failed) {
        sound(await api.post(`/admin/tasks/${task.id}/redeliver`, ""));
        task.isSentAgain = true;
      }
      return;
    }
    sound(await api.post("/admin/webhooks/redeliver", { since: "2020-01-01T00:00:00Z" }));
    for (const task of failed) task.isSentAgain = true;
  }

  async #look(api: ApiClient, task: CalledTask): Promise<DeliveryLog> {
    const reply = sound(await api.get(`/admin/tasks/${task.id}/deliveries`));
    const log = reply as unknown as DeliveryLog;
    if (task.deliveredAfter !== undefined) {
      assert.equal(log.state, "delivered", `${task.id} had been delivered`);
    } else if (log.state === "delivered") {
      task.deliveredAfter = this.#receiver.answers(task.id).length;
    }
    return log;
  }

  async #finalLog(api: ApiClient, task: CalledTask): Promise<DeliveryLog> {
    const lostMs = performance.now() + lostAfterMs;
    for (;;) {
      const log = await this.#look(api, task);
      if (log.state === "delivered" || log.state === "failed") return log;
      const { id, path } = task;
      const isLost = performance.now() > lostMs;
      assert.ok(!isLost, `${path} ${id} is not over: ${JSON.stringify(log)}, seed ${seed}`);
    }
  }

  #compare({ id, path, isSentAgain, deliveredAfter }: CalledTask, log: DeliveryLog): void {
    const answers = this.#receiver.answers(id);
    const about = `${path} ${id}: ${JSON.stringify(log)}, answered ${answers}, seed ${seed}`;
    // What a kill cut off was received, and is not in the log.
    assert.ok(answers.length >= log.total && answers.length <= log.total + kills, about);
    assert.ok(answers.length > 0, about);
    const isAccepted = path !== "/refused" || isSentAgain;
    if (isAccepted) assert.equal(log.state, "delivered", about);
    if (!this.#receiver.welcome.has(id) && path === "/refused") {
      assert.equal(log.state, "failed", about);
    }
    const last = log.tries.at(-1)?.status;
    assert.equal(last, log.state === "delivered" ? 200 : 400, about);
    assert.ok(answers.includes(last), about);
    if (deliveredAfter !== undefined) assert.equal(answers.length, deliveredAfter, about);
  }
}

function sound(reply: Reply): Record<string, unknown> {
  assert.ok(reply.status < 300, `${reply.status} ${reply.text}`);
  return reply.text === "" ? {} : (JSON.parse(reply.text) as Record<string, unknown>);
}
