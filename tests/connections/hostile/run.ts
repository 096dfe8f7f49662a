/**
 * `npm run hostile [-- <attack> ...] [--seconds 8] [--connections 5000] [--memory 512] [--tls]`: what a healthy client notices of
 * hostile ones. The server, the attacker and the healthy client are processes of their own; every attack meets a
 * server that was just started. Prints how long the healthy client waits, before and during, and the most memory
 * that the server held of its own. `--memory` gives the server that many MiB, as in a container.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { TlsWorld } from "../../../packages/server/test/tls-files.ts";
import { spawnServer, temporaryDirectory } from "../../e2e/server-process.ts";
import { residentBytes } from "../../memory/memory-group.ts";
import type { Attack } from "./attack.ts";
import type { AttackerMessage, AttackerTask } from "./attacker.ts";
import { attackCalled, attacks } from "./attacks.ts";
import { HealthyClient, type Latencies, type Probe } from "./healthy-client.ts";

const attackerFile = join(dirname(fileURLToPath(import.meta.url)), "attacker.ts");
const token = "dev-token";
const probes: readonly Probe[] = ["cycle", "connect", "stream"];
const mebibyte = 1024 * 1024;

const { values, positionals } = parseArgs({
  options: {
    seconds: { type: "string", default: "8" },
    connections: { type: "string" },
    memory: { type: "string" },
    tls: { type: "boolean", default: false },
  },
  allowPositionals: true,
});
const ms = Number(values.seconds) * 1000;
const memoryEnv =
  values.memory === undefined
    ? {}
    : {
        CODEQ_MEMORY_BYTES: String(Number(values.memory) * mebibyte),
        // What Node chooses in a container with this limit.
        NODE_OPTIONS: `--max-old-space-size=${Number(values.memory) / 2}`,
      };
const chosen =
  positionals.length === 0
    ? attacks.filter(({ isBelowTls }) => values.tls || isBelowTls !== true)
    : positionals.map(attackCalled);
console.log(
  "Waiting times of a healthy client in ms, before -> during an attack. cycle: three requests on a\n" +
    "kept connection; connect: one request on a new one; stream: one event on a gRPC stream.\n",
);
printRow([
  "attack",
  "connections",
  ...probes.flatMap((probe) => [`${probe} p50`, "p99"]),
  "failed",
  "MiB",
  "what the attackers got",
]);
for (const attack of chosen) await measure(attack);

async function measure(attack: Attack): Promise<void> {
  const directory = temporaryDirectory();
  const files = values.tls ? tlsFiles() : undefined;
  const server = spawnServer({
    dataDir: directory.path,
    env: { CODEQ_DURABILITY: "os", WORKER_STREAM_ADDR: ":0", ...memoryEnv, ...files?.env },
  });
  try {
    const listening = await server.line((line) => line.includes('"listening"'));
    const ports = JSON.parse(listening) as Record<string, number>;
    const target = {
      http: ports["port"] ?? 0,
      grpc: ports["workerStreamPort"] ?? 0,
      token,
      ca: files?.ca,
    };
    const client = await HealthyClient.open(target);
    await client.work({ ms: 1500 });
    const before = await client.work({ ms: ms / 2 });
    const connections = Number(values.connections ?? attack.connections);
    const port = target[attack.port];
    let mostBytes = 0;
    const watch = setInterval(() => {
      mostBytes = Math.max(mostBytes, memoryOf(server.pid));
    }, 100);
    const task = { attack: attack.name, port, token, connections, isSecure: values.tls };
    const attacker = await startAttacker(task);
    let failed = "";
    const during = await client.work({ ms }).catch((error: Error) => {
      failed = error.message;
      return undefined;
    });
    clearInterval(watch);
    const over = await stopAttacker(attacker);
    client.close();
    printRow([
      attack.name,
      String(connections),
      ...probes.flatMap((probe) => columns(before[probe], during?.[probe])),
      failed === "" ? "none" : failed,
      (mostBytes / mebibyte).toFixed(0),
      summary(over),
    ]);
  } finally {
    await server.kill();
    directory.dispose();
    files?.dispose();
  }
}

function tlsFiles(): { env: Record<string, string>; ca: string; dispose: () => void } {
  let dispose = (): void => {};
  const after = (run: () => void): void => {
    dispose = run;
  };
  const files = new TlsWorld({ after });
  files.writeServer(files.issue("server"));
  return { env: files.env, ca: files.ca.cert, dispose: () => dispose() };
}

async function startAttacker(task: AttackerTask): Promise<ChildProcess> {
  const child = fork(attackerFile, [JSON.stringify(task)], { execArgv: ["--conditions=source"] });
  await once(child, "message");
  return child;
}

async function stopAttacker(child: ChildProcess): Promise<AttackerMessage> {
  const answer = once(child, "message");
  child.send("stop");
  const [message] = (await answer) as [AttackerMessage];
  await once(child, "exit");
  return message;
}

function columns(before: Latencies, during: Latencies | undefined): [string, string] {
  const both = (pick: (each: Latencies) => number): string =>
    `${pick(before).toFixed(1)} -> ${during === undefined ? "?" : pick(during).toFixed(1)}`;
  return [both(({ p50Ms }) => p50Ms), both(({ p99Ms }) => p99Ms)];
}

function summary(message: AttackerMessage): string {
  if (message.kind !== "over") return "";
  const answers = message.answers.map(
    ([text, count]) => `${count} x ${text.replace("HTTP/1.1 ", "")}`,
  );
  return [`${message.closed} of ${message.opened} closed`, ...answers].join(", ");
}

/** Zero on systems other than Linux, and for a server that has ended. */
function memoryOf(pid: number): number {
  try {
    return residentBytes(pid);
  } catch {
    // The healthy client reports that the server has ended.
    return 0;
  }
}

function printRow(cells: readonly string[]): void {
  const widths = [20, 11, 15, 15, 15, 15, 15, 15, 6, 6];
  console.log(cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  "));
}
