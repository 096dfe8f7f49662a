/**
 * Checks the ports for a server on this machine, and the server that commands talk to: reachable, healthy,
 * clock in sync.
 */
import { createServer } from "node:net";
import type { Health, Reply, WireOf } from "@codeq/client/command-line";
import { streamAddressOf } from "@codeq/server/config";
import { type ApiClient, noTaskId } from "../api/api-client.ts";
import { dataDirectoryOf } from "../local/data-directory.ts";
import { duration } from "../terminal/units.ts";
import { pidIn } from "./check-data-directory.ts";
import { type Finding, fail, ok, type Patient, warn } from "./finding.ts";

const skewMsMax = 2000;

/** A port that is taken is fine when the server of this data directory runs. */
export async function checkPorts(patient: Patient): Promise<Finding[]> {
  const { config } = patient;
  const pid = pidIn(dataDirectoryOf(patient.call, patient.config));
  const ports = [
    { flag: "--port", host: config.host, port: config.port },
    ...streamPort("--worker-stream-addr", config.workerStreamAddr, config.host),
    ...streamPort("--producer-stream-addr", config.producerStreamAddr, config.host),
  ].filter(({ port }) => port !== 0);
  return Promise.all(
    ports.map(async ({ flag, host, port }) => {
      const check = `port ${port}`;
      const problem = await bindProblem(host, port);
      if (problem === undefined) return ok(check, "free");
      if (problem === "EADDRINUSE" && pid !== undefined) {
        return ok(check, `in use, probably by the server with pid ${pid}`);
      }
      const advice = `to start a server here, choose another port: ${flag}`;
      if (problem === "EADDRINUSE") return warn(check, "in use by another process", advice);
      return fail(check, `cannot be opened on ${host} (${problem})`, advice);
    }),
  );
}

interface ListenPort {
  readonly flag: string;
  readonly host: string;
  readonly port: number;
}

function streamPort(flag: string, address: string, httpHost: string): ListenPort[] {
  const found = streamAddressOf(address, httpHost);
  return found === undefined ? [] : [{ flag, ...found }];
}

function bindProblem(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port }, () => server.close(() => resolve(undefined)));
  });
}

/** Checks the server that `--base-url` names. */
export async function checkServer({ call }: Patient): Promise<Finding[]> {
  const api = await call.api();
  const { value: url } = api.connection.baseUrl;
  let health: Reply;
  const startedMs = call.host.clock.nowMs();
  try {
    health = await api.page("/healthz");
  } catch (error) {
    const advice = "ignore this if no server should run; codeq dev starts one";
    return [warn("server", (error as Error).message, advice)];
  }
  const endedMs = call.host.clock.nowMs();
  return [
    judgeHealth(url, health),
    judgeSkew(health.headers.get("date"), (startedMs + endedMs) / 2),
    await checkToken(api),
  ];
}

function judgeHealth(url: string, { status, text }: Reply): Finding {
  let body: WireOf<typeof Health>;
  try {
    body = JSON.parse(text) as WireOf<typeof Health>;
  } catch {
    return warn("server", `${url} answers, but is not a codeQ server`, "check --base-url");
  }
  const found = `${url}, storage ${body.storage}, durability ${body.durability}`;
  if (status !== 200) return fail("server", found, "read the log of the server and restart it");
  if (body.storage === "open") return ok("server", found);
  return fail(
    "server",
    found,
    "the disk is full: free some space, and the server continues by itself",
  );
}

export function judgeSkew(date: string | null, nowMs: number): Finding {
  const theirs = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(theirs)) return ok("server clock", "unknown: the answer has no Date header");
  // The header has whole seconds.
  const skewMs = Math.max(0, Math.abs(theirs + 500 - nowMs) - 500);
  if (skewMs <= skewMsMax) return ok("server clock", "agrees with this machine");
  const advice =
    "turn on time synchronization on both; delays and leases follow the clock of the server";
  return warn("server clock", `differs by ${duration(skewMs)}`, advice);
}

async function checkToken(api: ApiClient): Promise<Finding> {
  const { producerToken } = api.connection;
  if (producerToken === undefined) {
    return warn("token", "no token is set", "set one with CODEQ_TOKEN or codeq auth set");
  }
  const { status } = await api.reply("GET /tasks/:id", { params: { id: noTaskId } });
  if (status === 404) return ok("token", `accepted (${producerToken.source})`);
  const advice =
    "run codeq token verify for details; set another token with CODEQ_TOKEN or codeq auth set";
  return fail("token", `refused (${producerToken.source})`, advice);
}
