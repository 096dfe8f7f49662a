/** Producers on streams: those that go on for as long as the soak does, and those that die. */
import { producer } from "@codeq/protocol/wire";
import { payloadOf, type Story } from "./ledger.ts";
import { type ClientConnection, type ProducerStream, producerWire } from "./stream-client.ts";
import { newStory, type SoakWorld, token } from "./world.ts";

type Event = producer.ProducerEvent;

const hello: Event = { case: "hello", value: { token } };
const batchMax = 64;

/** One stream and the tasks on it that nobody has been told about. */
export class Producer {
  readonly stream: ProducerStream;
  readonly #world: SoakWorld;
  readonly #unanswered: Map<number, Story> = new Map();
  #lastSeq = 0;
  #onHello: () => void = () => {};
  #onQuiet: () => void = () => {};

  constructor(world: SoakWorld, connection: ClientConnection) {
    this.#world = world;
    this.stream = connection.open(producerWire);
    this.stream.onReply = (reply) => this.#take(reply);
  }

  greet(onHello: () => void = () => {}): void {
    this.#onHello = onHello;
    this.stream.send(hello);
  }

  get unanswered(): number {
    return this.#unanswered.size;
  }

  /** Calls back when everything is answered. */
  whenQuiet(run: () => void): void {
    this.#onQuiet = run;
    if (this.#unanswered.size === 0) run();
  }

  /** So many tasks, one by one and in batches; now and then a key that was sent before. */
  create(count: number): void {
    const { random } = this.#world;
    for (let left = count; left > 0; ) {
      if (random.next() < 0.5) {
        const story = newStory(this.#world);
        this.send(story);
        if (story.key !== "" && random.next() < 0.3) this.send(story);
        left -= 1;
      } else {
        const size = 1 + random.int(Math.min(left, batchMax));
        this.sendBatch(Array.from({ length: size }, () => newStory(this.#world)));
        left -= size;
      }
    }
  }

  send(story: Story): void {
    this.#world.ledger.count("creates sent");
    this.stream.send({ case: "create", value: this.#message(story) });
  }

  sendBatch(stories: readonly Story[]): void {
    this.#world.ledger.count("creates sent", stories.length);
    this.#world.ledger.count("create batches sent");
    const tasks = stories.map((story) => this.#message(story));
    this.stream.send({ case: "createBatch", value: { tasks } });
  }

  sendHalf(story: Story, share: number): void {
    this.stream.sendHalf({ case: "create", value: this.#message(story) }, share);
  }

  #message(story: Story): producer.CreateTask {
    const { random } = this.#world;
    this.#lastSeq += 1;
    this.#unanswered.set(this.#lastSeq, story);
    return {
      ...producer.newCreateTask(),
      seq: this.#lastSeq,
      command: story.command,
      payload: payloadOf(story),
      priority: random.int(10),
      maxAttempts: random.pick([2, 3, 5]),
      idempotencyKey: story.key,
      webhook: story.webhook,
      delaySeconds: random.next() < 0.05 ? 1 : 0,
    };
  }

  #take(reply: producer.ServerEvent): void {
    switch (reply.case) {
      case "helloAck":
        this.#onHello();
        return;
      case "createAck":
        this.#acknowledge(reply.value);
        break;
      case "createAckBatch":
        for (const ack of reply.value.acks) this.#acknowledge(ack);
        break;
      default:
        this.#world.ledger.problem(`a producer was told ${JSON.stringify(reply)}`);
    }
    if (this.#unanswered.size === 0) this.#onQuiet();
  }

  #acknowledge({ seq, ok, taskId, errorMessage }: producer.CreateAck): void {
    const { ledger } = this.#world;
    const story = this.#unanswered.get(Number(seq));
    this.#unanswered.delete(Number(seq));
    if (story === undefined) ledger.problem(`${seq} was acknowledged and never sent`);
    else if (!ok) ledger.problem(`${story.n} was refused: ${errorMessage}`);
    else {
      ledger.count("creates acknowledged");
      ledger.created(story, taskId);
    }
  }
}
