/**
 * Many connections that do the same, and are opened again when the server closes them, as those of an
 * attacker would be. Counts what the server says and how long it lets them live.
 */
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** What one connection does from its beginning; `every` repeats until the connection is closed. */
export type Play = (socket: Socket, every: (ms: number, run: () => void) => void) => void;

export interface CrowdOptions {
  readonly port: number;
  readonly size: number;
  readonly play: Play;
  readonly isSecure?: boolean;
  /** Whether a connection that was closed is opened again. */
  readonly reopens: boolean;
}

export interface CrowdReport {
  readonly opened: number;
  readonly closed: number;
  /** Of the connections that were closed by the server. */
  readonly livedMsMax: number;
  /** The first words of the answers, such as `HTTP/1.1 408`, with how often they came. */
  readonly answers: ReadonlyMap<string, number>;
}

/** Connections that wait for their turn to be accepted; more would fill the queue of the system. */
const connectingMax = 200;
const reopenMs = 50;

export class Crowd {
  readonly #options: CrowdOptions;
  readonly #sockets = new Set<Socket>();
  readonly #answers = new Map<string, number>();
  #opened = 0;
  #closed = 0;
  #livedMsMax = 0;
  #isOver = false;
  #onChange: () => void = () => {};

  constructor(options: CrowdOptions) {
    this.#options = options;
  }

  /** Resolves when all have been opened once. */
  async start(): Promise<void> {
    let next = 0;
    const { size } = this.#options;
    const lane = async (): Promise<void> => {
      while (next < size && !this.#isOver) {
        next += 1;
        await this.#open();
      }
    };
    await Promise.all(Array.from({ length: Math.min(connectingMax, size) }, lane));
  }

  get report(): CrowdReport {
    return {
      opened: this.#opened,
      closed: this.#closed,
      livedMsMax: this.#livedMsMax,
      answers: this.#answers,
    };
  }

  /** Resolves when the server has closed this many. */
  async untilClosed(count: number): Promise<void> {
    while (this.#closed < count) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
  }

  stop(): void {
    this.#isOver = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves when it is connected, or was refused. */
  #open(): Promise<void> {
    const { port, play, isSecure = false } = this.#options;
    const at = { port, host: "127.0.0.1" };
    const socket = isSecure
      ? connectTls({ ...at, rejectUnauthorized: false, ALPNProtocols: ["h2", "http/1.1"] })
      : connect({ ...at, noDelay: true });
    this.#sockets.add(socket);
    const timers: NodeJS.Timeout[] = [];
    let openedMs = performance.now();
    socket.once("data", (chunk) => this.#note(chunk));
    socket.on("error", () => {
      // That it was closed is all that counts.
    });
    socket.once("close", () => {
      for (const timer of timers) clearInterval(timer);
      this.#sockets.delete(socket);
      if (!this.#isOver) this.#lost(performance.now() - openedMs);
    });
    return new Promise((resolve) => {
      socket.once("close", () => resolve());
      socket.once(isSecure ? "secureConnect" : "connect", () => {
        this.#opened += 1;
        openedMs = performance.now();
        play(socket, (ms, run) => timers.push(setInterval(run, ms)));
        socket.resume();
        resolve();
      });
    });
  }

  #lost(livedMs: number): void {
    this.#closed += 1;
    this.#livedMsMax = Math.max(this.#livedMsMax, livedMs);
    this.#onChange();
    if (!this.#options.reopens) return;
    setTimeout(() => {
      if (!this.#isOver) void this.#open();
    }, reopenMs);
  }

  #note(chunk: Buffer): void {
    const words = /^HTTP\/1\.1 \d+/.exec(chunk.toString("latin1", 0, 12))?.[0] ?? "frames";
    this.#answers.set(words, (this.#answers.get(words) ?? 0) + 1);
  }
}
