/**
 * Clients that die or do not read, at every point of a conversation and in every way that there is.
 * What they were told counts; what they were not told is in doubt, and only the store knows it.
 */
import { Producer } from "./producers.ts";
import { ClientConnection, type ProducerStream, type WorkerStream } from "./stream-client.ts";
import { Worker } from "./workers.ts";
import { bulkCommand, idleCommand, newStory, type SoakWorld } from "./world.ts";

/** How a stream goes away. */
const deaths = ["cancel", "break", "half-close"] as const;
type Death = (typeof deaths)[number];

/** One after the other, so that every point is met as often. */
const points = [
  "before its Hello",
  "in the middle of its Hello",
  "with its first events unread",
  "while it waits for work",
  "in the middle of a Ready",
  "when it has got tasks",
  "when it has sent results",
  "in the middle of a result",
  "in the middle of a task it creates",
  "when it has sent tasks",
  "when a part of its tasks is acknowledged",
] as const;
type Point = (typeof points)[number];

const slowReaders = 4;
const slowReadys = 60;
const slowCreates = 300;
const slowWindowBytes = 4096;
/** Enough to fill what the server holds for one that does not read. */
const bulkPerSlowReader = 30;
const catchUpTicks = 10;
const doomedMax = 200;

interface Slow {
  readonly stream: WorkerStream | ProducerStream;
  readonly connection: ClientConnection;
  ticksLeft: number;
  isCatchingUp: boolean;
}

export class Troublemakers {
  readonly #world: SoakWorld;
  /** Streams that are only reset share it with each other, and must not feel it. */
  readonly #shared: ClientConnection;
  readonly #doomed: Set<ClientConnection> = new Set();
  readonly #slow: Slow[] = [];
  #made = 0;

  constructor(world: SoakWorld) {
    this.#world = world;
    this.#shared = new ClientConnection(world.workerPort);
  }

  tick(): void {
    if (this.#doomed.size < doomedMax) this.#makeDoomed();
    while (this.#slow.length < slowReaders) this.#slow.push(this.#makeSlow());
    for (const slow of [...this.#slow]) {
      slow.ticksLeft -= 1;
      if (slow.ticksLeft <= 0) this.#wake(slow);
    }
  }

  /** All of them go away at once. */
  end(): void {
    for (const connection of [...this.#doomed, this.#shared]) connection.break();
    for (const { connection } of this.#slow) connection.break();
  }

  #makeDoomed(): void {
    const { random, ledger } = this.#world;
    const point = points[this.#made % points.length] as Point;
    const death = random.pick(deaths);
    this.#made += 1;
    ledger.count("streams opened");
    ledger.count(`died ${point}`);
    const isShared = death !== "break" && random.next() < 0.5;
    const connection = isShared ? this.#shared : new ClientConnection(this.#anyPort());
    if (!isShared) this.#doomed.add(connection);
    const over = (): void => {
      if (isShared) return;
      connection.close();
      this.#doomed.delete(connection);
    };
    const isProducer = point.includes("tasks") && point !== "when it has got tasks";
    if (isProducer || point === "in the middle of a task it creates") {
      this.#doomProducer(connection, { point, death, over });
    } else {
      this.#doomWorker(connection, { point, death, over });
    }
  }

  #doomProducer(connection: ClientConnection, fate: Fate): void {
    const { random } = this.#world;
    const producer = new Producer(this.#world, connection);
    const { stream } = producer;
    const die = (): void => kill(stream, connection, fate);
    stream.onEnd = fate.over;
    producer.greet(() => {
      switch (fate.point) {
        case "in the middle of a task it creates":
          producer.create(1 + random.int(5));
          producer.sendHalf(newStory(this.#world), random.next());
          die();
          return;
        case "when it has sent tasks":
          producer.create(1 + random.int(100));
          die();
          return;
        default:
          producer.create(20);
          producer.whenQuiet(() => {
            producer.create(50);
            die();
          });
      }
    });
  }

  #doomWorker(connection: ClientConnection, fate: Fate): void {
    const { random, leaseSeconds } = this.#world;
    const worker = new Worker(this.#world, connection, `doomed-${this.#made}`);
    const { stream } = worker;
    const die = (): void => kill(stream, connection, fate);
    const short = { leaseSeconds: leaseSeconds[0] };
    stream.onEnd = fate.over;
    switch (fate.point) {
      case "before its Hello":
        die();
        return;
      case "in the middle of its Hello":
        stream.sendHalf({ case: "hello", value: { token: "x".repeat(100), workerId: "" } }, 0.5);
        die();
        return;
      case "with its first events unread":
        worker.greet();
        worker.ready(1 + random.int(20), short);
        die();
        return;
      default:
        break;
    }
    worker.onTasks = (tasks) => {
      if (fate.point === "when it has sent results") worker.work(tasks);
      else if (fate.point === "in the middle of a result") {
        const [first] = tasks;
        const result = { taskId: first?.id ?? "", leaseToken: 0, status: "COMPLETED", error: "" };
        stream.sendHalf(
          {
            case: "result",
            value: { ...result, stack: "", resultJson: "{}", artifacts: [], used: undefined },
          },
          random.next(),
        );
      }
      die();
    };
    worker.greet(() => {
      switch (fate.point) {
        case "while it waits for work":
          worker.ready(1, { commands: [idleCommand] });
          worker.ready(5, { commands: [idleCommand] });
          die();
          return;
        case "in the middle of a Ready":
          stream.sendHalf(worker.readyEvent(5), random.next());
          die();
          return;
        default:
          worker.ready(1 + random.int(10), short);
      }
    });
  }

  #makeSlow(): Slow {
    const { random, ledger, slowTicks } = this.#world;
    this.#made += 1;
    ledger.count("streams opened");
    ledger.count("slow readers");
    const connection = new ClientConnection(this.#anyPort(), slowWindowBytes);
    const stream =
      random.next() < 0.7 ? this.#slowWorker(connection) : this.#slowProducer(connection);
    stream.onEnd = () => connection.close();
    return { stream, connection, ticksLeft: random.pick(slowTicks), isCatchingUp: false };
  }

  /** Asks for more than it will ever read for now. */
  #slowWorker(connection: ClientConnection): WorkerStream {
    const { leaseSeconds } = this.#world;
    const worker = new Worker(this.#world, connection, `slow-${this.#made}`);
    worker.greet(() => {
      worker.stream.stopReading();
      for (let each = 0; each < slowReadys; each += 1) {
        worker.ready(20, { commands: [bulkCommand], leaseSeconds: leaseSeconds[1] });
      }
    });
    this.#world.bulkWanted += bulkPerSlowReader;
    return worker.stream;
  }

  /** Creates tasks whose acknowledgements it does not read. */
  #slowProducer(connection: ClientConnection): ProducerStream {
    const producer = new Producer(this.#world, connection);
    producer.greet(() => {
      producer.stream.stopReading();
      producer.create(slowCreates);
    });
    return producer.stream;
  }

  /** Half of them read and work after all, the others die with everything that they have not read. */
  #wake(slow: Slow): void {
    const { random, ledger } = this.#world;
    const { stream, connection } = slow;
    if (!slow.isCatchingUp && random.next() < 0.5) {
      slow.isCatchingUp = true;
      slow.ticksLeft = catchUpTicks;
      stream.read();
      return;
    }
    ledger.count(slow.isCatchingUp ? "slow readers that caught up" : "slow readers that died");
    this.#slow.splice(this.#slow.indexOf(slow), 1);
    kill(stream, connection, { death: slow.isCatchingUp ? "half-close" : random.pick(deaths) });
    stream.read();
  }

  #anyPort(): number {
    const { random, workerPort, producerPort } = this.#world;
    return random.pick([workerPort, producerPort]);
  }
}

interface Fate {
  readonly point: Point;
  readonly death: Death;
  /** The stream has ended. */
  readonly over: () => void;
}

function kill(
  stream: WorkerStream | ProducerStream,
  connection: ClientConnection,
  { death }: Pick<Fate, "death">,
): void {
  switch (death) {
    case "cancel":
      stream.cancel();
      return;
    case "break":
      connection.break();
      return;
    case "half-close":
      stream.halfClose();
  }
}
