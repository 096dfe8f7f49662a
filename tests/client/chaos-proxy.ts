/**
 * A proxy between clients and a server that treats connections badly: it cuts them, holds them up,
 * swallows what they carry, sends bytes twice, and plays a whole connection to the server a second
 * time, with nobody to hear the answers.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import type { SimRandom } from "@codeq/simulated";

export type ProxyFault =
  | "cut"
  | "hold"
  | "swallow"
  | "repeat bytes"
  | "repeat all"
  | "refuse"
  | "delay";

export const proxyFaults: readonly ProxyFault[] = [
  "cut",
  "hold",
  "swallow",
  "repeat bytes",
  "repeat all",
  "refuse",
  "delay",
];

const holdMsMax = 2_000;
const swallowMsMax = 3_000;
const refuseMsMax = 1_000;
const delayMsMax = 40;
/** Longer connections cannot be played a second time. */
const recordBytesMax = 256 * 1024;
const echoMsMax = 2_000;

class Link {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #record: Buffer[] = [];
  #recordBytes = 0;
  #isSwallowing = false;
  #repeatsNext = false;
  #delayMs = 0;

  constructor(client: Socket, server: Socket) {
    this.#client = client;
    this.#server = server;
    client.on("data", (chunk: Buffer) => {
      this.#remember(chunk);
      this.#pass(chunk, server);
    });
    server.on("data", (chunk: Buffer) => this.#pass(chunk, client));
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      // A connection that ends in any way ends on both sides; that is all there is to know.
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
      from.on("end", () => to.end());
    }
  }

  get isOpen(): boolean {
    return !this.#client.destroyed && !this.#server.destroyed;
  }

  cut(): void {
    this.#client.resetAndDestroy();
    this.#server.resetAndDestroy();
  }

  hold(ms: number): void {
    for (const socket of [this.#client, this.#server]) socket.pause();
    setTimeout(() => {
      for (const socket of [this.#client, this.#server]) socket.resume();
    }, ms);
  }

  swallow(ms: number): void {
    this.#isSwallowing = true;
    setTimeout(() => this.cut(), ms);
  }

  repeatBytes(): void {
    this.#repeatsNext = true;
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** What the client has sent so far, unless that is too much. */
  get sent(): Buffer | undefined {
    return this.#recordBytes > recordBytesMax ? undefined : Buffer.concat(this.#record);
  }

  #remember(chunk: Buffer): void {
    this.#recordBytes += chunk.length;
    if (this.#recordBytes > recordBytesMax) this.#record.length = 0;
    else this.#record.push(chunk);
  }

  #pass(chunk: Buffer, to: Socket): void {
    if (this.#isSwallowing) return;
    const chunks = this.#repeatsNext ? [chunk, chunk] : [chunk];
    this.#repeatsNext = false;
    const write = (): void => {
      for (const each of chunks) if (to.writable) to.write(each);
    };
    if (this.#delayMs === 0) write();
    else setTimeout(write, this.#delayMs);
  }
}

export class ChaosProxy {
  readonly #listener: Server;
  readonly #random: SimRandom;
  readonly #links = new Set<Link>();
  readonly #echoes = new Set<Socket>();
  #isRefusing = false;
  #delayMs = 0;
  targetPort = 0;
  port = 0;

  constructor(random: SimRandom) {
    this.#random = random;
    this.#listener = createServer((client) => this.#accept(client));
  }

  async listen(targetPort: number): Promise<void> {
    this.targetPort = targetPort;
    await new Promise<void>((resolve) => this.#listener.listen(0, "127.0.0.1", resolve));
    const address = this.#listener.address();
    this.port = typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Does something bad to one connection, or to those that come next. */
  disturb(fault: ProxyFault): void {
    const open = [...this.#links].filter(({ isOpen }) => isOpen);
    if (fault === "refuse") this.#refuse();
    else if (fault === "delay") this.#delay(open);
    else if (open.length > 0) this.#spoil(this.#random.pick(open), fault);
  }

  /** From now on everything passes as it should. */
  heal(): void {
    this.#isRefusing = false;
    this.#delayMs = 0;
    for (const link of this.#links) link.delay(0);
  }

  close(): void {
    this.#listener.close();
    for (const link of this.#links) link.cut();
    for (const echo of this.#echoes) echo.destroy();
  }

  #accept(client: Socket): void {
    if (this.#isRefusing) {
      client.resetAndDestroy();
      return;
    }
    const server = connect(this.targetPort, "127.0.0.1");
    for (const socket of [client, server]) socket.setNoDelay(true);
    const link = new Link(client, server);
    link.delay(this.#delayMs);
    this.#links.add(link);
    client.once("close", () => this.#links.delete(link));
  }

  #refuse(): void {
    this.#isRefusing = true;
    setTimeout(() => {
      this.#isRefusing = false;
    }, this.#random.int(refuseMsMax));
  }

  #delay(open: readonly Link[]): void {
    this.#delayMs = this.#random.int(delayMsMax);
    for (const link of open) link.delay(this.#delayMs);
  }

  #spoil(link: Link, fault: Exclude<ProxyFault, "refuse" | "delay">): void {
    if (fault === "cut") link.cut();
    else if (fault === "hold") link.hold(this.#random.int(holdMsMax));
    else if (fault === "swallow") link.swallow(this.#random.int(swallowMsMax));
    else if (fault === "repeat bytes") link.repeatBytes();
    else this.#repeatAll(link);
  }

  /** The server cannot tell it from a client that says the same again. */
  #repeatAll(link: Link): void {
    const bytes = link.sent;
    if (bytes === undefined || bytes.length === 0) return;
    const echo = connect(this.targetPort, "127.0.0.1");
    this.#echoes.add(echo);
    // Whatever comes back, and however it ends, nobody is there for it.
    echo.on("error", () => {});
    echo.on("data", () => {});
    echo.on("close", () => this.#echoes.delete(echo));
    echo.write(bytes);
    setTimeout(() => echo.destroy(), this.#random.int(echoMsMax));
  }
}
