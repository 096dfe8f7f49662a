/**
 * `dev`: a development server in one command. It is the same server with the same data format as in
 * production, with its data in `.codeq` of the current directory, a token, commands to paste, and a line for
 * every event. With the program of a worker, it runs that too, restarts it when a file changes, and prints a line
 * for every run of a task.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { getCompileCacheDir } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { developmentToken, launchServer, standInFor } from "@codeq/server/command-line";
import { type Config, hasDevelopmentToken, hostToName, urlOf } from "@codeq/server/config";
import { ApiClient } from "../../api/api-client.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";
import type { Host } from "../../host.ts";
import { devDataDirectory, serverConfig } from "../../local/data-directory.ts";
import { DevWorker } from "../../local/dev-worker.ts";
import { freePorts, type LogLine, readLogLines } from "../../local/server-process.ts";
import { count, timeOfDay } from "../../terminal/units.ts";
import { CalmLines, followFeed, RunTimes } from "../../watch/events.ts";

/** For ports that were chosen and are taken; a server has three. */
const anyPorts = "--port 0 --worker-stream-addr :0 --producer-stream-addr :0";

export async function run(call: Call): Promise<number> {
  const { host } = call;
  const given = await serverConfig(call);
  if (given.config.sources.logFormat.startsWith("flag")) {
    throw usageError("dev has its own log format", "use codeq serve to choose the format");
  }
  const isOurs = given.config.sources.dataDir === "default";
  const dataDir = isOurs ? devDataDirectory(call) : resolve(host.directory, given.config.dataDir);
  if (call.options.has("fresh")) {
    const { wipeData } = await import("../../local/wipe-data.ts");
    await wipeData(call, dataDir);
  }
  if (isOurs) makeFolder(dirname(dataDir));
  const { flags, taken } = await freePorts(given.config);
  if (taken.length > 0) {
    const [ports, are] = taken.length === 1 ? ["port", "is"] : ["ports", "are"];
    const numbers = taken.join(", ");
    call.note(`${ports} ${numbers} ${are} in use by another process; using free ports instead`);
  }
  const args = [
    ...call.serverArgs,
    "--log-format=json",
    ...(isOurs ? [`--data-dir=${dataDir}`] : []),
    ...flags,
    ...unlessSet(given.config.sources),
  ];
  // The next start takes half the time when compiled code is kept.
  const env = { NODE_COMPILE_CACHE: getCompileCacheDir(), ...host.env };
  const program = call.words[0];
  const worker = program === undefined ? undefined : new DevWorker(call, program);
  const ended = new AbortController();
  const shown = { dataDir: relative(host.directory, dataDir) || dataDir, config: given.config };
  const launch = (): ChildProcess => {
    const server = launchServer({ args, env, stdio: ["ignore", "pipe", "inherit"] });
    if (server.stdout !== null) {
      readLogLines(server.stdout, (line) => {
        if (line.msg !== "listening") return showLine(call, line);
        const ready = devReady(shown, line);
        readKeys(call, ready, ended.signal);
        welcome(call, ready, { signal: ended.signal, worker });
        worker?.start(ready);
      });
    }
    return server;
  };
  const code = await standInFor(launch, host.env, worker && (() => worker.stop()));
  ended.abort();
  await worker?.stop();
  if (code === exitCodes.ok.code) call.note(`stopped; the data is in ${shown.dataDir}`);
  if (code === exitCodes.port.code)
    call.note(`to run next to another server: ${host.program} dev ${anyPorts}`);
  return code;
}

/** What suits a machine for development better than the defaults of production. */
function unlessSet(sources: Config["sources"]): string[] {
  return [
    // As many connections as there are open files for, without asking for more.
    ...(sources.connectionsMax === "default" ? ["--connections-max=1000"] : []),
    // What is being developed and gets webhooks runs on this machine too, also if others reach the server.
    ...(sources.webhookAllowPrivateNetworks === "default"
      ? ["--webhook-allow-private-networks=true"]
      : []),
  ];
}

/** What is in it belongs to this machine and not into a repository. */
function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const ignore = join(folder, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
}

interface Shown {
  readonly signal: AbortSignal;
  readonly worker: DevWorker | undefined;
}

function welcome(call: Call, ready: Ready, { signal, worker }: Shown): void {
  if (call.json) {
    call.printJson({ event: "ready", ...ready });
    return;
  }
  for (const line of welcomeLines(ready, call, worker)) call.print(line);
  const token = { value: ready.token ?? developmentToken, source: "the server" };
  const connection = {
    profile: "",
    baseUrl: { value: ready.url, source: "this server" },
    urls: [ready.url],
    producerToken: token,
    workerToken: token,
    workerTokenOf: "producer",
    admin: true,
    tls: {},
  } as const;
  const api = new ApiClient(connection, call.host.clock);
  const { style, host } = call;
  const lines = new CalmLines({ clock: host.clock, style, print: (line) => call.print(line) });
  const runs = new RunTimes();
  followFeed(call, api, {
    command: "",
    types: "",
    signal,
    heard: (event) => {
      if (worker === undefined) return lines.add(event);
      const tookMs = runs.tookMs(event);
      if (tookMs !== undefined) lines.add(event, tookMs);
    },
    missed: (number) =>
      call.print(style.dim(`and ${count(number)} more events that are not shown`)),
    // The code that watches the process of the server reports that it stops or fails.
    note: () => {},
  }).catch((error: Error) => call.note(`events cannot be shown: ${error.message}`));
}

/** On a terminal, `o` opens the console. Ctrl-C is a key, too, while keys are read one by one. */
function readKeys(call: Call, ready: Ready, signal: AbortSignal): void {
  const { console: consoleUrl } = ready;
  if (consoleUrl === undefined || !isTyped(call)) return;
  const stop = call.host.input.onKey((key) => {
    if (key === "\x03") process.kill(process.pid, "SIGINT");
    if (key !== "o") return;
    openInBrowser(call.host, consoleUrl, () =>
      call.note(`no browser could be opened; the console is at ${consoleUrl}`),
    );
  });
  signal.addEventListener("abort", stop);
}

function isTyped({ host, json }: Call): boolean {
  return !json && host.input.isTerminal && host.output.isTerminal;
}

function showLine(call: Call, line: LogLine): void {
  if (call.json) {
    call.print(line.text);
    return;
  }
  if (line.level !== "warn" && line.level !== "error") return;
  const { time: _, level: __, msg: ___, ...fields } = line.fields;
  const { style, host } = call;
  const level = line.level === "error" ? style.red("error") : style.yellow("warn");
  const details = Object.keys(fields).length === 0 ? "" : ` ${style.dim(JSON.stringify(fields))}`;
  call.print(`${style.dim(timeOfDay(host.clock.nowMs()))}  ${level}  ${line.msg}${details}`);
}

interface Ready {
  readonly url: string;
  /** The address of the web console; absent when it is turned off. */
  readonly console?: string;
  /** Absent when the configuration has tokens of its own, which are secrets. */
  readonly token?: string;
  readonly streams: readonly string[];
  readonly dataDir: string;
  readonly durability: string;
}

function devReady(
  { dataDir, config }: { dataDir: string; config: Config },
  { fields }: LogLine,
): Ready {
  const host = hostToName(config.host);
  const ports = [fields["workerStreamPort"], fields["producerStreamPort"]];
  const isDevelopment = config.producerAuth.some(hasDevelopmentToken);
  const url = urlOf(config, Number(fields["port"]));
  return {
    url,
    ...(config.console ? { console: `${url}/` } : {}),
    ...(isDevelopment ? { token: developmentToken } : {}),
    streams: ports.filter((port) => port !== undefined).map((port) => `${host}:${port}`),
    dataDir,
    durability: String(fields["durability"]),
  };
}

const defaultPort = ":8080";
const events = "Events are shown below. Press Ctrl-C to stop the server.";
const runsBelow = "Runs of tasks are shown below. Press Ctrl-C to stop the worker and the server.";

function welcomeLines(ready: Ready, call: Call, worker: DevWorker | undefined): string[] {
  const { style } = call;
  const { program } = call.host;
  const { url, console: consoleUrl, token, streams, dataDir, durability } = ready;
  const label = (text: string): string => style.dim(text.padEnd(12));
  const memory = dataDir === "" ? "in memory" : `${dataDir} (${durability})`;
  return [
    "",
    `  ${style.bold("codeQ is ready")}  ${style.cyan(url)}`,
    "",
    ...(consoleUrl === undefined
      ? []
      : [`  ${label("console")}${consoleUrl}${isTyped(call) ? "  (press o to open it)" : ""}`]),
    `  ${label("token")}${token ?? "a token of your configuration"}`,
    ...(streams.length === 0 ? [] : [`  ${label("gRPC")}${streams.join("  ")}`]),
    `  ${label("data")}${memory}; ${program} dev --fresh deletes the data`,
    `  ${label("health")}${url}/healthz  ${url}/metrics`,
    "",
    ...(worker === undefined
      ? ["  In another terminal:", ...snippets(ready, program).map((line) => `    ${line}`), ""]
      : [`  ${label("worker")}${worker.program}, restarted when a file of it changes`, ""]),
    style.dim(`  ${worker === undefined ? events : runsBelow}`),
    "",
  ];
}

/** Lines that work as they stand, also when the server is not where commands look for it. */
function snippets({ url, token }: Ready, program: string): string[] {
  const isDefault = url.endsWith(defaultPort);
  return [
    ...(isDefault ? [] : [`export CODEQ_URL=${url}`]),
    ...(token === undefined ? ["export CODEQ_TOKEN=<one of your tokens>"] : []),
    `${program} work hello -- cat`,
    `${program} enqueue hello '{"name":"world"}' --wait`,
    `${program} top`,
    `curl ${url}/v1/codeq/tasks -H 'Authorization: Bearer ${token ?? "<token>"}' \\`,
    `  -d '{"command":"hello","payload":{"name":"curl"}}'`,
  ];
}

const openers: Readonly<Record<string, readonly string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", '""'],
};

/** `failed` is called when there is nothing that could open it. */
function openInBrowser({ env }: Host, url: string, failed: () => void): void {
  const given = env["BROWSER"];
  const [program = "", ...args] =
    given === undefined || given === "" ? (openers[process.platform] ?? ["xdg-open"]) : [given];
  const child = spawn(program, [...args, url], { stdio: "ignore" });
  child.on("error", failed);
  child.on("exit", (code) => {
    if (code !== 0) failed();
  });
  child.unref();
}
