/** The producing side of a client: one connection to the server for all its tasks and results. */
import { producer } from "@codeq/protocol/wire";
import { CodeqError } from "../codeq-error.ts";
import { Connection, type Next, type TokenSource } from "../connection/connection.ts";
import type { OpenSession } from "../connection/session.ts";
import type { StreamMethod } from "../grpc/grpc-session.ts";
import type { Runtime } from "../runtime.ts";
import { type CreateFields, type CreateOptions, Creations } from "./creations.ts";
import { Results, type WaitOptions } from "./results.ts";

export type OpenProducerSession = OpenSession<producer.ProducerEvent, producer.ServerEvent>;

export const producerMethod: StreamMethod<producer.ProducerEvent, producer.ServerEvent> = {
  path: "/producerpb.ProducerStream/Stream",
  write: producer.writeProducerEvent,
  read: producer.readServerEvent,
};

interface ProducerParts {
  readonly runtime: Runtime;
  readonly openSession: OpenProducerSession;
  readonly token: TokenSource;
  /** Called for problems that no call waits for. */
  readonly onWarning: (error: CodeqError) => void;
}

export class Producer {
  readonly #parts: ProducerParts;
  readonly #connection: Connection<producer.ProducerEvent, producer.ServerEvent>;
  readonly #creations: Creations;
  readonly #results: Results;
  #isClosed = false;
  #onIdle: () => void = () => {};

  constructor(parts: ProducerParts) {
    this.#parts = parts;
    const { runtime, openSession, token } = parts;
    this.#connection = new Connection({
      runtime,
      openSession,
      token,
      hello: (text) => ({ case: "hello", value: { token: text } }),
      isHelloAck: (reply) => reply.case === "helloAck",
      stay: () => false,
      listener: {
        opened: () => this.#flush(),
        reply: (reply) => this.#take(reply),
        drained: () => this.#flush(),
        lost: () => this.#lost(),
        refused: (error) => this.#refused(error),
      },
    });
    const shared = {
      runtime,
      send: (event: producer.ProducerEvent) => this.#connection.send(event),
      isOpen: () => this.#connection.isOpen,
      onWaiting: () => this.#wake(),
      onIdle: () => this.#rest(),
      problem: () => this.#connection.lastError,
    };
    this.#creations = new Creations(shared);
    this.#results = new Results(shared);
  }

  /** Resolves with the id of the task once it is stored. */
  create(fields: CreateFields, options: CreateOptions): Promise<string> {
    if (this.#isClosed) return Promise.reject(closedError());
    return this.#creations.add(fields, options);
  }

  result(taskId: string, options: WaitOptions): Promise<producer.TaskResult> {
    if (this.#isClosed) return Promise.reject(closedError());
    return this.#results.wait(taskId, options);
  }

  /** Waits for what is on its way; what is not answered in time is rejected. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true;
    this.#results.failAll(closedError());
    if (this.#creations.size > 0) {
      await new Promise<void>((resolve) => {
        const cancel = this.#parts.runtime.clock.after(timeoutMs, resolve);
        this.#onIdle = () => {
          cancel();
          resolve();
        };
      });
    }
    this.#creations.failAll(closedError());
    await this.#connection.close();
  }

  /** Behaves as if the process ended: nothing more is sent, and nothing is answered. */
  cut(): void {
    this.#isClosed = true;
    this.#connection.cut();
    this.#creations.failAll(closedError());
    this.#results.failAll(closedError());
  }

  get #isIdle(): boolean {
    return this.#creations.size === 0 && this.#results.size === 0;
  }

  #wake(): void {
    this.#connection.keepAwake(true);
    if (this.#connection.isOpen) this.#flush();
    else this.#connection.connect();
  }

  /** The process does not stay alive for an idle connection. */
  #rest(): void {
    if (!this.#isIdle) return;
    this.#connection.keepAwake(false);
    this.#onIdle();
  }

  #flush(): void {
    this.#creations.flush();
    this.#results.flush();
    this.#connection.flush();
  }

  #take(reply: producer.ServerEvent): void {
    switch (reply.case) {
      case "createAck":
        this.#creations.acknowledged(reply.value);
        break;
      case "createAckBatch":
        for (const ack of reply.value.acks) this.#creations.acknowledged(ack);
        break;
      case "taskResult":
        this.#results.answered(reply.value);
        return;
      case "error":
        this.#parts.onWarning(new CodeqError(reply.value.errorCode, reply.value.message));
        return;
      case "helloAck":
      case undefined:
        return;
    }
    // There may be room for more now.
    this.#creations.flush();
  }

  #lost(): Next {
    this.#creations.lost();
    this.#results.lost();
    return this.#isIdle ? "rest" : "again";
  }

  /** A retry with the same token would fail again. */
  #refused(error: CodeqError): Next {
    this.#creations.failAll(error);
    this.#results.failAll(error);
    return "rest";
  }
}

function closedError(): CodeqError {
  return new CodeqError("closed", "the client is closed");
}
