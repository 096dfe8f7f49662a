/**
 * `npm run soak-client -- [--seconds 600] [--seed 1]`: clients of all kinds against a server that is
 * killed, stopped, paused and restarted, behind proxies that treat connections badly. In the end
 * nothing that was acknowledged may be lost or doubled, nothing may be unhandled, and memory has to be
 * as flat at the end as it was in the beginning.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { SimRandom } from "@codeq/simulated";
import { type ServerProcess, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { ChaosProxy, proxyFaults } from "./chaos-proxy.ts";
import type { ClientsOptions, ClientsReport } from "./soak-clients.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    seed: { type: "string", default: String(process.pid) },
  },
});
const seconds = Number(values.seconds);

const faultEveryMs = 400;
const pauseMsMax = 2_500;
/** Most that the heap of the clients may grow from the first third to the last. */
const growthBytesMax = 8 * 1024 * 1024;
/** In a shorter soak the first third is over before everything is warm. */
const growthSecondsMin = 120;

class Soak {
  readonly #random: SimRandom = new SimRandom(values.seed);
  readonly #directory = temporaryDirectory();
  readonly #http: ChaosProxy = new ChaosProxy(this.#random.fork("http"));
  readonly #streams: ChaosProxy = new ChaosProxy(this.#random.fork("streams"));
  #env: Readonly<Record<string, string>> = {};
  #server: ServerProcess | undefined;
  #isBusy = false;
  #onFree: () => void = () => {};
  #faults = 0;

  async run(): Promise<number> {
    const any = { PORT: "0", WORKER_STREAM_ADDR: "127.0.0.1:0" };
    const ports = portsOf(await this.#start(any));
    this.#env = { PORT: String(ports.http), WORKER_STREAM_ADDR: `127.0.0.1:${ports.streams}` };
    await this.#http.listen(ports.http);
    await this.#streams.listen(ports.streams);
    const clients = startClients({
      url: `http://127.0.0.1:${this.#http.port}`,
      streams: `127.0.0.1:${this.#streams.port}`,
      seed: values.seed,
    });
    const ended = once(clients, "exit").then(([code]) => {
      throw new Error(`the clients ended by themselves with code ${code}`);
    });
    await Promise.race([this.#disturb(clients), ended]);
    this.#http.heal();
    this.#streams.heal();
    await this.#free();
    const reported = once(clients, "message");
    clients.send("finish");
    const [report] = (await Promise.race([reported, ended])) as [ClientsReport];
    ended.catch(() => {});
    await this.#stop(clients);
    return show(report, this.#faults);
  }

  /** Something bad at every turn, for as long as the soak lasts. */
  #disturb(clients: ChildProcess): Promise<void> {
    const endMs = performance.now() + seconds * 1000;
    return new Promise((resolve) => {
      const timer = setInterval(() => {
        if (performance.now() < endMs) {
          this.#fault(clients);
          return;
        }
        clearInterval(timer);
        resolve();
      }, faultEveryMs);
    });
  }

  #fault(clients: ChildProcess): void {
    this.#faults += 1;
    const dice = this.#random.int(100);
    if (dice < 6) void this.#restart("SIGKILL");
    else if (dice < 9) void this.#restart("SIGTERM");
    else if (dice < 14) void this.#pause();
    else if (dice < 22) clients.send(this.#random.pick(["crash", "close"]));
    else if (dice < 40) this.#http.disturb(this.#random.pick(proxyFaults));
    else this.#streams.disturb(this.#random.pick(proxyFaults));
  }

  async #restart(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    await this.#alone(async () => {
      this.#server?.signal(signal);
      await this.#server?.exited;
      await this.#start(this.#env);
    });
  }

  async #pause(): Promise<void> {
    await this.#alone(async () => {
      this.#server?.signal("SIGSTOP");
      const ms = this.#random.int(pauseMsMax);
      await new Promise<void>((resolve) => {
        setTimeout(() => resolve(), ms);
      });
      this.#server?.signal("SIGCONT");
    });
  }

  /** One thing is done to the server at a time. */
  async #alone(run: () => Promise<void>): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    await run();
    this.#isBusy = false;
    this.#onFree();
  }

  #free(): Promise<void> {
    if (!this.#isBusy) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onFree = resolve;
    });
  }

  async #start(env: Readonly<Record<string, string>>): Promise<ServerProcess> {
    const settings = {
      BACKOFF_BASE_SECONDS: "1",
      BACKOFF_MAX_SECONDS: "2",
      PRODUCER_STREAM_ADDR: "off",
      // What has ended goes soon, so that the server does not grow either.
      CODEQ_RETENTION_SECONDS: "120",
    };
    const dataDir = this.#directory.path;
    this.#server = await startServer({ dataDir, env: { ...settings, ...env } });
    return this.#server;
  }

  async #stop(clients: ChildProcess): Promise<void> {
    if (clients.exitCode === null) await once(clients, "exit");
    this.#http.close();
    this.#streams.close();
    await this.#server?.stop();
    this.#directory.dispose();
    if (clients.exitCode !== 0) throw new Error(`the clients ended with code ${clients.exitCode}`);
  }
}

function startClients(options: ClientsOptions): ChildProcess {
  const file = join(import.meta.dirname, "soak-clients.ts");
  const execArgv = ["--conditions=source", "--expose-gc"];
  return fork(file, [JSON.stringify(options)], { execArgv });
}

function portsOf(server: ServerProcess): { http: number; streams: number } {
  const line = server.stdout.split("\n").find((each) => each.includes('"listening"')) ?? "{}";
  const { port, workerStreamPort } = JSON.parse(line) as { port: number; workerStreamPort: number };
  return { http: port, streams: workerStreamPort };
}

/** The exit code: zero when all went well. */
function show(report: ClientsReport, faults: number): number {
  const problems = [...report.problems];
  const third = Math.floor(report.heap.length / 3);
  const before = median(report.heap.slice(0, third));
  const after = median(report.heap.slice(-third));
  if (seconds >= growthSecondsMin && after - before > growthBytesMax) {
    problems.push(`the heap of the clients grew from ${inMib(before)} to ${inMib(after)}`);
  }
  console.log(`seed ${values.seed}, ${seconds} s, ${faults} faults`);
  console.log(`  tasks acknowledged  ${report.stored}, with a result ${report.finished}`);
  console.log(`  deliveries          ${report.deliveries}, results told ${report.completed}`);
  console.log(`  worker connections  ${report.connections}`);
  console.log(`  refused results     ${JSON.stringify(report.refusals)}`);
  console.log(`  heap of the clients ${inMib(before)} at first, ${inMib(after)} at last`);
  for (const problem of problems) console.error(`PROBLEM: ${problem}`);
  return problems.length === 0 ? 0 : 1;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

function inMib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

process.exitCode = await new Soak().run();
