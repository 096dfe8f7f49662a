/**
 * The servers that the peers benchmark compares with: Debian's packages, installed when they are
 * missing and started on the loopback with a directory of the benchmark. A service of the
 * distribution is neither started nor used.
 */
import { type ChildProcess, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { pathOf, SetupError } from "./programs.ts";
import { progress } from "./table.ts";
import { freePort, lastWords, type Workspace } from "./workspace.ts";

/** Also the names of their packages. */
const programs = ["redis-server", "beanstalkd"] as const;
type Program = (typeof programs)[number];

const startMsMax = 10_000;
const startPollMs = 20;
/** Asked by Debian's scripts before they start a service; 101 forbids it. */
const policyFile = "/usr/sbin/policy-rc.d";
const forbidStart = "#!/bin/sh\nexit 101\n";

export interface PeerServer {
  readonly child: ChildProcess;
  readonly port: number;
}

/** Installs what is missing. */
export function ensurePeers(wanted: readonly Program[] = programs): void {
  const missing = wanted.filter((program) => pathOf(program) === undefined);
  if (missing.length === 0) return;
  const command = `apt-get install --no-install-recommends ${missing.join(" ")}`;
  if (pathOf("apt-get") === undefined) {
    throw new SetupError(
      `${missing.join(" and ")} not found, and there is no apt-get. ` +
        "Install what is missing, put it into the PATH, then run this again.",
    );
  }
  if (process.getuid?.() !== 0) {
    throw new SetupError(
      `${missing.join(" and ")} not found. Run as root: ${command}\n` +
        "or run this as root, which does the same.",
    );
  }
  progress(`installing ${missing.join(" and ")}`);
  const isForbidden = existsSync(policyFile);
  if (!isForbidden) writeFileSync(policyFile, forbidStart, { mode: 0o755 });
  try {
    aptGet(["update", "-qq"], command);
    aptGet(["install", "-y", "-qq", "--no-install-recommends", ...missing], command);
  } finally {
    if (!isForbidden) rmSync(policyFile);
  }
}

function aptGet(args: readonly string[], command: string): void {
  const { status, stdout, stderr } = spawnSync("apt-get", args, {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    encoding: "utf8",
  });
  if (status === 0) return;
  throw new SetupError(
    `apt-get ${args.join(" ")} failed:\n${stdout}${stderr}\nMake this work, then run it again: ${command}`,
  );
}

/** Appends every write to a file that is synced once a second; the rest is as Redis has it. */
export async function startRedis(workspace: Workspace): Promise<PeerServer> {
  const port = await freePort();
  const address = ["--port", String(port), "--bind", "127.0.0.1"];
  const durability = ["--appendonly", "yes", "--appendfsync", "everysec"];
  const directory = ["--dir", workspace.newDirectory()];
  return await start(workspace, {
    program: "redis-server",
    port,
    args: [...address, ...durability, ...directory],
  });
}

/** With a binlog that is synced at most every so many milliseconds; 0 syncs every write. */
export async function startBeanstalkd(workspace: Workspace, syncMs: number): Promise<PeerServer> {
  const port = await freePort();
  const address = ["-l", "127.0.0.1", "-p", String(port)];
  const args = [...address, "-b", workspace.newDirectory(), `-f${syncMs}`];
  return await start(workspace, { program: "beanstalkd", port, args });
}

interface Start {
  readonly program: Program;
  readonly port: number;
  readonly args: readonly string[];
}

/** Resolves when the port is open. */
async function start(workspace: Workspace, { program, port, args }: Start): Promise<PeerServer> {
  const child = workspace.spawn(pathOf(program) ?? program, args, {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const complaints = lastWords(child);
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`${program} ${args.join(" ")} ended with code ${code}: ${complaints()}`);
  });
  ended.catch(() => {});
  const untilMs = performance.now() + startMsMax;
  while (!(await isOpen(port))) {
    if (performance.now() > untilMs) throw new Error(`${program} did not open its port`);
    await Promise.race([sleep(startPollMs), ended]);
  }
  return { child, port };
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const answer = (found: boolean) => (): void => {
      socket.destroy();
      resolve(found);
    };
    socket.once("connect", answer(true));
    socket.once("error", answer(false));
  });
}
