/**
 * Does what a page says, block by block, in one directory: files are written, servers and workers
 * started, commands run, and what is shown as their output is looked for in it.
 *
 * The blocks are taken as they stand, with two exceptions. Ports are free ones, so the addresses of the
 * pages become those of the server that runs. Paths below /etc, /opt, /usr/local and /var are below a directory of
 * the test, and the commands of folder `stand-ins` come before those of the system.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { ensureProgram } from "../cli/programs.ts";
import { bareEnvironment } from "../cli/setup.ts";
import { Terminal } from "../cli/terminal.ts";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { type Block, blocksIn } from "./pages.ts";

const standIns = join(import.meta.dirname, "stand-ins");

interface Ports {
  readonly port: number;
  readonly workerStreamPort?: number;
  readonly producerStreamPort?: number;
}

export interface PageRunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Folder with the packed packages installed; without it the sources of the repository are used. */
  readonly installed?: string;
}

export class PageRun {
  readonly directory: string;
  readonly env: Record<string, string>;
  readonly #t: TestContext;
  readonly #children: Child[] = [];
  /** A page says 8080, 9091 and 9092. */
  #ports: Ports = { port: 8080 };
  #printed = "";

  constructor(t: TestContext, { env = {}, installed }: PageRunOptions = {}) {
    this.#t = t;
    const directory = temporaryDirectory();
    this.directory = join(directory.path, "here");
    mkdirSync(this.directory);
    const system = process.env["PATH"] ?? "";
    this.env = {
      ...(installed === undefined ? { NODE_OPTIONS: "--conditions=source" } : {}),
      ...bareEnvironment(directory.path),
      PATH: `${standIns}:${dirname(process.execPath)}:${system}`,
      GUIDE_PATH: system,
      GUIDE_NODE: process.execPath,
      GUIDE_ROOT: root,
      GUIDE_STAND_INS: standIns,
      GUIDE_MACHINE: directory.path,
      GUIDE_INSTALLED: installed ?? "",
      ...env,
    };
    t.after(async () => {
      await this.#stop();
      directory.dispose();
    });
  }

  get #machine(): string {
    return this.env["GUIDE_MACHINE"] ?? "";
  }

  async run(page: string): Promise<void> {
    const blocks = blocksIn(page);
    for (const [index, block] of blocks.entries()) {
      await this.#do(block, blocks[index + 1]).catch((cause: Error) => {
        throw new Error(`${page}:${block.line} ${cause.message}`, { cause });
      });
    }
  }

  async #do(block: Block, next: Block | undefined): Promise<void> {
    if (block.file !== undefined) this.#write(block.file, block.text);
    switch (block.mark) {
      case "sh server":
        return await this.#serve(block.text);
      case "sh background":
        this.#start(block.text);
        return;
      case "sh run":
        return await this.#finish(block.text);
      case "sh terminal":
        return await this.#draw(
          block.text,
          next?.mark === "text screen" ? next.text : "Press q to quit",
        );
      case "text output":
      case "json output":
        assert.match(this.#printed, patternOf(block.text));
    }
  }

  #write(file: string, text: string): void {
    const path = file.startsWith("/") ? this.#here(file) : join(this.directory, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, this.#here(text));
  }

  async #serve(script: string): Promise<void> {
    const child = this.#start(script);
    const line = await child.anyLine((each) => /codeQ is ready|"listening"/.test(each));
    const [, url] = /codeQ is ready +(\S+)/.exec(line) ?? [];
    if (url === undefined) this.#use(JSON.parse(line) as Ports);
    else await this.#lookUp(url);
  }

  async #lookUp(url: string): Promise<void> {
    const { streams } = (await (await fetch(`${url}/healthz`)).json()) as {
      streams: { worker: number; producer: number };
    };
    const port = Number(new URL(url).port);
    this.#use({ port, workerStreamPort: streams.worker, producerStreamPort: streams.producer });
  }

  #use(ports: Ports): void {
    this.#ports = ports;
    this.env["CODEQ_URL"] = `http://127.0.0.1:${ports.port}`;
    this.env["PORT"] = String(ports.port);
  }

  async #finish(script: string): Promise<void> {
    const exit = await this.#start(script).exited;
    assert.equal(exit.code, 0, `ended with ${exit.code}:\n${exit.stdout}${exit.stderr}`);
    this.#printed = exit.stdout + exit.stderr;
    const listening = join(this.#machine, "run/codeq/listening.json");
    if (existsSync(listening)) this.#use(JSON.parse(readFileSync(listening, "utf8")) as Ports);
  }

  async #draw(script: string, shown: string): Promise<void> {
    if (!(await ensureProgram(this.#t, "tmux"))) return;
    const terminal = await Terminal.open(this.#t, this.env, this.directory);
    // The shell that tmux starts may have a path of its own.
    await terminal.type(`PATH='${this.env["PATH"]}'; clear; ${this.#here(script).trim()}`);
    await terminal.screen(looksLike(shown));
    await terminal.tmux("send-keys", "q");
  }

  /** A shell whose last command takes its place, and so gets the signals that are meant for it. */
  #start(script: string): Child {
    const child = new Child(
      spawn("bash", ["-euo", "pipefail", "-c", this.#here(script).trim()], {
        cwd: this.directory,
        env: this.env,
        stdio: ["ignore", "pipe", "pipe"],
      }),
    );
    this.#children.push(child);
    return child;
  }

  /** As it is on this machine, now. */
  #here(text: string): string {
    const { port, workerStreamPort = 9091, producerStreamPort = 9092 } = this.#ports;
    return text
      .replaceAll(/(127\.0\.0\.1|localhost):8080\b/g, `$1:${port}`)
      .replaceAll(/(127\.0\.0\.1|localhost):9091\b/g, `$1:${workerStreamPort}`)
      .replaceAll(/(127\.0\.0\.1|localhost):9092\b/g, `$1:${producerStreamPort}`)
      .replaceAll(/(?<![\w.}])\/(etc|opt|var|usr\/local)\//g, `${this.#machine}/$1/`);
  }

  async #stop(): Promise<void> {
    const services = join(this.#machine, "run");
    for (const name of existsSync(services) ? readdirSync(services) : []) {
      if (!existsSync(join(services, name, "pid"))) continue;
      await this.#start(`systemctl stop ${name}`).exited;
    }
    for (const child of this.#children.toReversed()) {
      child.signal("SIGTERM");
      await child.exited;
    }
  }
}

/** The same for a screen, on which figures and the space between them are never twice the same. */
function looksLike(shown: string): { test(screen: string): boolean } {
  const figures = /(?<!\w)(?:-(?= )|\d[\d.:,]*(?: ?(?:µs|ms|[smhd]|[KMG]iB|%)(?![\w/]))?)/g;
  const outline = (text: string): string =>
    text
      .replaceAll(figures, "#")
      .replaceAll(/ +/g, " ")
      .replaceAll(/\s*\n\s*/g, "\n")
      .trim();
  return { test: (screen) => outline(screen).includes(outline(shown)) };
}

/** What is shown, wherever it stands; … is anything within a line, and a line of it any lines. */
function patternOf(shown: string): RegExp {
  const lines = shown.trim().split("\n");
  const parts = lines.map((line, index) => {
    if (line.trim() === "…") return "[^]*";
    const spaces = line.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", "[^\\n]*");
    return index === lines.length - 1 || lines[index + 1]?.trim() === "…"
      ? spaces
      : `${spaces}\\s*\\n`;
  });
  return new RegExp(parts.join(""));
}
