/**
 * A real S3 server over a folder: versitygw, from CODEQ_VERSITYGW, the PATH, or `go install`. What was got
 * is kept in the user's cache folder. In front of it stands a proxy that can be told to misbehave.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toolCache } from "../tool-cache.ts";

const version = "1.8.0";

/** The path, or why there is none. */
export function s3Binary(): { readonly path: string } | { readonly missing: string } {
  const kept = join(toolCache, `versitygw-${version}`);
  const known = [process.env["CODEQ_VERSITYGW"] ?? "", "versitygw", kept];
  const found = known.find((path) => path !== "" && isUsable(path));
  if (found !== undefined) return { path: found };
  mkdirSync(toolCache, { recursive: true });
  const env = { ...process.env, GOBIN: toolCache, CGO_ENABLED: "0" };
  const module = `github.com/versity/versitygw/cmd/versitygw@v${version}`;
  spawnSync("go", ["install", module], { env, cwd: tmpdir(), stdio: "ignore" });
  const made = join(toolCache, "versitygw");
  if (existsSync(made)) renameSync(made, kept);
  if (isUsable(kept)) return { path: kept };
  return { missing: "versitygw is not on the PATH, and go install did not get it" };
}

function isUsable(path: string): boolean {
  return spawnSync(path, ["--version"], { stdio: "ignore" }).status === 0;
}

/** What the proxy does with a request; undefined passes it on. */
export type Fault =
  | { readonly kind: "status"; readonly status: number }
  /** Cut after so many bytes of the request. */
  | { readonly kind: "cut"; readonly bytes: number }
  /** One byte of the request's body is another one. */
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
    for (const folder of ["data/artifacts", "sidecar"]) {
      mkdirSync(join(directory, folder), { recursive: true });
    }
    const port = await freePort();
    const args = ["--port", `127.0.0.1:${port}`, "--access", "a-key"];
    const rest = ["--secret", "the-secret-of-the-key", "--quiet", "posix"];
    const sidecar = ["--sidecar", join(directory, "sidecar")];
    const child = spawn(binary, [...args, ...rest, ...sidecar, join(directory, "data")], {
      stdio: "ignore",
    });
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
      const isFirst = bytes === 0;
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
      if (fault?.kind === "damage" && isFirst) piece[0] = (piece[0] ?? 0) ^ 1;
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
