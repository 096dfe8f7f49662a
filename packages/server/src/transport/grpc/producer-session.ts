/** The producer stream: tasks come in, and each is acknowledged when it is durable. */
import { producer } from "@codeq/protocol/wire";
import type { Identity } from "../../access/identity.ts";
import type { CreatedTask, CreateTaskInput } from "../../operations/create-task.ts";
import { operations } from "../../operations/index.ts";
import { type Answer, refusal } from "../../operations/operation.ts";
import { traceContext } from "../trace-context.ts";
import { inMessages } from "./acks.ts";
import type { Conversation, Protocol, Session, SessionParts } from "./session.ts";
import { StreamCounts } from "./stream-counts.ts";
import { textIn } from "./text-in.ts";

type Event = producer.ProducerEvent;
type Reply = producer.ServerEvent;

export function producerProtocol(parts: SessionParts): Protocol<Event, Reply> {
  return {
    access: "producer",
    counts: new StreamCounts(),
    read: producer.readProducerEvent,
    write: producer.writeServerEvent,
    missingToken: "missing token",
    greetingOf: (event) =>
      event.case === "hello" ? { token: event.value.token, name: "" } : undefined,
    errorReply: (code, message) => ({ case: "error", value: { code, message } }),
    begin: (session, identity) => {
      const { tenantId, subject } = identity;
      session.send({ case: "helloAck", value: { tenantId, subject } });
      return new ProducerConversation(parts, session, identity);
    },
  };
}

class ProducerConversation implements Conversation<Event> {
  readonly #parts: SessionParts;
  readonly #session: Session<Reply>;
  readonly #call: { readonly identity: Identity; readonly signal: undefined };

  constructor(parts: SessionParts, session: Session<Reply>, identity: Identity) {
    this.#parts = parts;
    this.#session = session;
    this.#call = { identity, signal: undefined };
  }

  take(event: Event): Promise<void> | undefined {
    switch (event.case) {
      case "create":
        return this.#create(event.value);
      case "createBatch":
        return event.value.tasks.length === 0 ? undefined : this.#createBatch(event.value.tasks);
      case "hello":
        this.#session.refuse("FailedPrecondition", "already-authenticated");
        return undefined;
      case undefined:
        this.#session.refuse("InvalidArgument", "unknown-event");
        return undefined;
    }
  }

  finish(): void {
    this.#session.drain();
  }

  /** What was taken is finished and acknowledged to nobody. */
  closed(): void {}

  /** Acknowledgements are as many as there are tasks, and the stream reads no more of those. */
  slowed(): void {}

  async #create(task: producer.CreateTask): Promise<void> {
    const ack = await this.#ack(task);
    this.#session.send({ case: "createAck", value: ack });
  }

  /** All are decided before the first is awaited, so they share commits and keep their order. */
  async #createBatch(tasks: readonly producer.CreateTask[]): Promise<void> {
    const all = await Promise.all(tasks.map((task) => this.#ack(task)));
    for (const acks of inMessages(all)) {
      this.#session.send({ case: "createAckBatch", value: { acks } });
    }
  }

  async #ack(task: producer.CreateTask): Promise<producer.CreateAck> {
    const { seq } = task;
    const input = toInput(task);
    const answer: Answer<CreatedTask> = input.ok
      ? await this.#parts.dispatch.run(operations.createTask, this.#call, input.value)
      : input;
    return answer.ok
      ? { seq, ok: true, taskId: answer.value.task.id, errorMessage: "" }
      : { seq, ok: false, taskId: "", errorMessage: answer.text };
  }
}

function toInput(task: producer.CreateTask): Answer<CreateTaskInput> {
  const command = task.command.trim();
  if (command === "") return refusal("invalid_argument", "command is required");
  if (task.delaySeconds < 0) {
    return refusal("invalid_argument", "delaySeconds must be >= 0");
  }
  const payload = textIn(task.payload);
  if (payload === undefined) return refusal("invalid_argument", "invalid payload (must be UTF-8)");
  return {
    ok: true,
    value: {
      command,
      payload: payload === "" ? "null" : payload,
      priority: task.priority,
      webhook: task.webhook,
      maxAttempts: task.maxAttempts,
      idempotencyKey: task.idempotencyKey,
      runAt: task.runAtMs ?? "",
      delaySeconds: task.delaySeconds,
      ...traceContext(task.traceParent, task.traceState),
    },
  };
}
