/** Clients that do what clients should, from the beginning to the end: none of their streams may end. */
import type { TaskJson } from "../e2e/api-client.ts";
import { payloadOf } from "./ledger.ts";
import { Producer } from "./producers.ts";
import { ClientConnection } from "./stream-client.ts";
import { Worker } from "./workers.ts";
import { idleCommand, newBulkStory, newStory, type SoakWorld } from "./world.ts";

const producers = 4;
const workersPerConnection = 4;
/** Of every worker: what its Readys ask for. */
const readyCounts = [1, 1, 5, 50];
const idleStreams = 20;
const httpInFlightMax = 8;

export class SteadyClients {
  readonly #world: SoakWorld;
  readonly #connections: ClientConnection[] = [];
  readonly #producers: Producer[] = [];
  readonly #workers: Worker[] = [];
  readonly #idle: Worker[] = [];
  #isEnding = false;
  #httpInFlight = 0;

  constructor(world: SoakWorld) {
    this.#world = world;
  }

  start(): void {
    const { workerPort, producerPort } = this.#world;
    // Either port takes both kinds.
    for (const port of [workerPort, producerPort]) {
      const connection = this.#connect(port);
      for (let each = 0; each < producers / 2; each += 1) this.#startProducer(connection);
      for (let each = 0; each < workersPerConnection; each += 1) this.#startWorker(connection);
      for (let each = 0; each < idleStreams / 2; each += 1) this.#startIdle(connection);
    }
  }

  /** So many tasks on streams, and a few things over HTTP. */
  tick(count: number): void {
    const share = Math.ceil(count / this.#producers.length);
    for (const producer of this.#producers) producer.create(share);
    for (; this.#world.bulkWanted > 0; this.#world.bulkWanted -= 1) {
      this.#world.random.pick(this.#producers).send(newBulkStory(this.#world));
    }
    this.#overHttp(() => this.#createOverHttp());
    this.#overHttp(() => this.#workOverHttp());
  }

  /** Half-closes everything; resolves when every stream has ended as it should. */
  async end(): Promise<void> {
    this.#isEnding = true;
    const all = [...this.#producers, ...this.#workers, ...this.#idle];
    await Promise.all(
      all.map(({ stream }) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        stream.onEnd = (end) => {
          if (end !== "0") this.#world.ledger.problem(`a half-close was answered with ${end}`);
          resolve();
        };
        stream.halfClose();
        return promise;
      }),
    );
    for (const connection of this.#connections) connection.close();
  }

  /** From now on every worker takes whatever there is. */
  workOff(): void {
    for (const steady of this.#workers) steady.ready(Math.max(...readyCounts));
  }

  /** Resolves when every task that was sent is answered. */
  async quiet(): Promise<void> {
    await Promise.all(
      this.#producers.map(
        (producer) => new Promise<void>((resolve) => producer.whenQuiet(resolve)),
      ),
    );
  }

  #connect(port: number): ClientConnection {
    const connection = new ClientConnection(port);
    this.#connections.push(connection);
    return connection;
  }

  #startProducer(connection: ClientConnection): void {
    const producer = new Producer(this.#world, connection);
    this.#keep(producer, "producer");
    producer.greet();
    this.#producers.push(producer);
  }

  #startWorker(connection: ClientConnection): void {
    const steady = new Worker(this.#world, connection, `steady-${this.#workers.length}`);
    this.#keep(steady, steady.name);
    // A Ready is served once, so whatever came makes room for another one.
    steady.onTasks = (tasks) => {
      steady.work(tasks);
      steady.ready(this.#world.random.pick(readyCounts));
    };
    steady.greet(() => {
      for (const count of readyCounts) steady.ready(count);
    });
    this.#workers.push(steady);
  }

  /** Some with a Ready that is never served, some that have said nothing but Hello. */
  #startIdle(connection: ClientConnection): void {
    const idle = new Worker(this.#world, connection, `idle-${this.#idle.length}`);
    this.#keep(idle, idle.name);
    const asks = this.#idle.length % 2 === 0;
    idle.greet(() => {
      if (asks) idle.ready(10, { commands: [idleCommand] });
    });
    this.#idle.push(idle);
  }

  #keep({ stream }: Producer | Worker, name: string): void {
    this.#world.ledger.count("streams opened");
    stream.onEnd = (end) => {
      if (!this.#isEnding) this.#world.ledger.problem(`the stream of ${name} ended: ${end}`);
    };
  }

  #overHttp(run: () => Promise<void>): void {
    if (this.#httpInFlight >= httpInFlightMax) return;
    this.#httpInFlight += 1;
    run()
      .catch((error: unknown) => this.#world.ledger.problem(`HTTP: ${String(error)}`))
      .finally(() => {
        this.#httpInFlight -= 1;
      });
  }

  async #createOverHttp(): Promise<void> {
    const { api, ledger } = this.#world;
    const story = newStory(this.#world);
    const { command, key, webhook } = story;
    const more = `,"idempotencyKey":"${key}","webhook":"${webhook}"`;
    ledger.count("creates sent");
    const body = `{"command":"${command}","payload":${payloadOf(story)}${more}}`;
    const reply = await api.create(body);
    if (reply.status !== 202) ledger.problem(`HTTP create: ${reply.status} ${reply.text}`);
    else {
      ledger.count("creates acknowledged");
      ledger.created(story, (JSON.parse(reply.text) as TaskJson).id);
    }
  }

  async #workOverHttp(): Promise<void> {
    const { api, ledger, leaseSeconds } = this.#world;
    const claim = { waitSeconds: 1, leaseSeconds: leaseSeconds[1] };
    const claimed = await api.post("/tasks/claim", claim);
    if (claimed.status === 204) return;
    const { id, payload, leaseToken = 0 } = JSON.parse(claimed.text) as TaskJson;
    ledger.delivered({ id, payload, leaseToken });
    const result = { status: "COMPLETED", result: { done: true }, leaseToken };
    const reply = await api.post(`/tasks/${id}/result`, result);
    if (reply.status === 200) ledger.ended(id, "completed", "HTTP");
    else if (reply.status === 409 || reply.status === 403) ledger.count("results that came late");
    else ledger.problem(`HTTP result: ${reply.status} ${reply.text}`);
  }
}
