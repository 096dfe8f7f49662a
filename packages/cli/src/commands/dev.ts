/**
 * `dev`: a development server in one command. It is the same server with the same data format as in
 * production, with its data in `.codeq` of the current directory, a token, commands to paste, and a line for
 * every event.
 */
import type { ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { getCompileCacheDir } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { developmentToken, launchServer, standInFor } from "@codeq/server/command-line";
import type { Config } from "@codeq/server/config";
import { ApiClient } from "../api/api-client.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { devDataDirectory } from "../local/data-directory.ts";
import { freePorts } from "../local/free-ports.ts";
import { type LogLine, readLogLines } from "../local/read-log-lines.ts";
import { serverConfig } from "../local/server-config.ts";
import { count, timeOfDay } from "../terminal/units.ts";
import { CalmLines } from "../watch/event-lines.ts";
import { followFeed } from "../watch/follow-feed.ts";
import { devReady, type Ready, welcomeLines } from "./dev-welcome.ts";

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
    const { wipeData } = await import("../local/wipe-data.ts");
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
  const ended = new AbortController();
  const shown = { dataDir: relative(host.directory, dataDir) || dataDir, config: given.config };
  const launch = (): ChildProcess => {
    const server = launchServer({ args, env, stdio: ["ignore", "pipe", "inherit"] });
    if (server.stdout !== null) {
      readLogLines(server.stdout, (line) => {
        if (line.msg === "listening") welcome(call, devReady(shown, line), ended.signal);
        else showLine(call, line);
      });
    }
    return server;
  };
  const code = await standInFor(launch, host.env);
  ended.abort();
  if (code === exitCodes.ok.code) call.note(`stopped; the data is in ${shown.dataDir}`);
  if (code === exitCodes.port.code)
    call.note(`to run next to another server: ${host.program} dev ${anyPorts}`);
  return code;
}

/** What suits a machine for development better than the defaults of production. */
function unlessSet(sources: Config["sources"]): string[] {
  return [
    // As many as there are open files for, without asking for more.
    ...(sources.connectionsMax === "default" ? ["--connections-max=1000"] : []),
    // What is being developed and gets webhooks runs on this machine too.
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

function welcome(call: Call, ready: Ready, ended: AbortSignal): void {
  if (call.json) {
    call.printJson({ event: "ready", ...ready });
    return;
  }
  for (const line of welcomeLines(ready, call.host.program, call.style)) call.print(line);
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
  followFeed(call, api, {
    command: "",
    types: "",
    signal: ended,
    heard: (event) => lines.add(event),
    missed: (number) =>
      call.print(style.dim(`and ${count(number)} more events that are not shown`)),
    // That the server stops or fails is told where its process is watched.
    note: () => {},
  }).catch((error: Error) => call.note(`events cannot be shown: ${error.message}`));
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
