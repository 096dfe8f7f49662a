/**
 * Which log servers form a cluster, and the removal of one that does not come back. Only users of the system account
 * may ask, so this takes a connection of its own.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import { FaultError } from "../../fault.ts";
import { connectNats, type NatsServersOptions } from "./nats-connection.ts";

export interface LogServer {
  readonly name: string;
  readonly isOnline: boolean;
}

const timeoutMs = 5000;

interface MetaAnswer {
  readonly data?: {
    readonly meta_cluster?: {
      readonly leader?: string;
      readonly replicas?: readonly { readonly name: string; readonly offline?: boolean }[];
    };
  };
}

interface RemovalAnswer {
  readonly error?: { readonly description: string; readonly err_code: number };
}

export class NatsSystem implements AsyncDisposable {
  readonly #connection: NatsConnection;

  private constructor(connection: NatsConnection) {
    this.#connection = connection;
  }

  static async connect(options: NatsServersOptions): Promise<NatsSystem> {
    return new NatsSystem(await connectNats(options));
  }

  /** All log servers, as their leader knows them. */
  async servers(): Promise<readonly LogServer[]> {
    const answer = await this.#ask<MetaAnswer>("$SYS.REQ.SERVER.PING.JSZ", { leader_only: true });
    const { leader, replicas = [] } = answer.data?.meta_cluster ?? {};
    const others = replicas.map(({ name, offline }) => ({ name, isOnline: offline !== true }));
    return leader === undefined ? others : [{ name: leader, isOnline: true }, ...others];
  }

  /** Forgets a server that is down; others keep what it kept. */
  async remove(name: string): Promise<void> {
    const { error } = await this.#ask<RemovalAnswer>("$JS.API.SERVER.REMOVE", { peer: name });
    if (error === undefined) return;
    const why = `log server ${name} could not be removed: ${error.description} (${error.err_code})`;
    throw new FaultError("storage_failed", why);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.close();
  }

  async #ask<T>(subject: string, request: object): Promise<T> {
    try {
      const text = JSON.stringify(request);
      return (await this.#connection.request(subject, text, { timeout: timeoutMs })).json<T>();
    } catch (error) {
      const why = `the log servers have no leader, or do not answer: ${(error as Error).message}`;
      throw new FaultError("storage_failed", `${why}. Try again in a few seconds.`, error);
    }
  }
}
