/** `outbox`: the migration, a relay, and the state of the rows. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { CodeqError, codeq } from "@codeq/client";
import {
  metricsText,
  migrationSql,
  outboxStatus,
  type Relay,
  retryRefused,
  startRelay,
} from "@codeq/outbox";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";
import { duration, timeOfDay } from "../terminal/units.ts";

const batchMax = 1000;

export async function sql(call: Call): Promise<void> {
  const text = migrationSql({ notify: !call.options.has("no-notify") });
  call.answer({ sql: text }, text.trimEnd());
}

export async function relay(call: Call): Promise<void> {
  const { options, host } = call;
  const databaseUrl = databaseUrlOf(call);
  const batch = options.wholeNumber("batch", { min: 1, max: batchMax });
  const address = metricsAddressOf(call);
  const api = await call.api();
  const { urls, tls } = api.connection;
  await using client = codeq({ url: urls, token: api.token("producer").value, tls });
  const stopped = host.stopped();
  const print = (line: string, json: object): void => {
    const nowMs = host.clock.nowMs();
    if (call.json) call.printJson({ time: new Date(nowMs).toISOString(), ...json });
    else call.print(`${call.style.dim(timeOfDay(nowMs))}  ${line}`);
  };
  const running = startRelay({
    client,
    databaseUrl,
    batch,
    ordered: options.has("ordered"),
    on: {
      ready: () => print("ready", { event: "ready" }),
      delivered: (tasks) => {
        if (call.json) print("", { event: "delivered", tasks });
      },
      refused: (row) => {
        const { id, command, code, message } = row;
        print(`${call.style.red("refused")}  ${command}  ${id}: ${message} (${code})`, {
          event: "refused",
          ...row,
        });
      },
      trouble: ({ code, message }) => {
        print(call.style.yellow(message), { event: "trouble", code, message });
      },
    },
  });
  const metrics = address === undefined ? undefined : await serveMetrics(running, address);
  call.note(`relaying to ${urls.join(", ")}; press Ctrl-C to stop`);
  if (!stopped.aborted) await Promise.race([once(stopped, "abort"), running.done]);
  metrics?.close();
  await running.close();
}

export async function status(call: Call): Promise<void> {
  const found = await reached(outboxStatus(databaseUrlOf(call)));
  const { waiting, oldestSeconds, refused } = found;
  const age = waiting === 0 ? "" : `, the oldest for ${duration(oldestSeconds * 1000)}`;
  call.answer(found, `${waiting} waiting${age}`, `${refused} refused`);
}

export async function retry(call: Call): Promise<void> {
  const ids = call.words.length === 0 ? undefined : call.words;
  const rows = await reached(retryRefused(databaseUrlOf(call), ids));
  call.answer({ retried: rows }, `${rows} ${rows === 1 ? "row waits" : "rows wait"} again`);
}

function databaseUrlOf({ options, host }: Call): string {
  const url = options.text("database-url") ?? host.env["CODEQ_DATABASE_URL"];
  if (url !== undefined && URL.canParse(url) && /^postgres(ql)?:$/.test(new URL(url).protocol)) {
    return url;
  }
  // The address may hold a password, so it is not quoted.
  const problem =
    url === undefined || url === ""
      ? "the address of the database is missing"
      : "the address of the database does not begin with postgres://";
  throw usageError(
    problem,
    "pass --database-url postgres://user@host/database, or set CODEQ_DATABASE_URL",
  );
}

interface Address {
  readonly host: string;
  readonly port: number;
}

function metricsAddressOf({ options }: Call): Address | undefined {
  const text = options.text("metrics-addr");
  if (text === undefined) return undefined;
  const [, host = "", port = ""] = /^(.*):(\d{1,5})$/.exec(text) ?? [];
  if (port === "" || Number(port) > 65_535) {
    throw usageError(`--metrics-addr must be host:port, not ${JSON.stringify(text)}`);
  }
  return { host: host.replace(/^\[(.*)\]$/, "$1") || "0.0.0.0", port: Number(port) };
}

async function serveMetrics(running: Relay, { host, port }: Address): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.url !== "/metrics") {
      response.writeHead(404).end("not found; the metrics are at /metrics\n");
      return;
    }
    running.status().then(
      (found) => {
        response.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
        response.end(metricsText(found));
      },
      (error: Error) => response.writeHead(503).end(`${error.message}\n`),
    );
  });
  server.listen({ host, port });
  await once(server, "listening").catch((cause: Error) => {
    throw new CliError(`cannot serve metrics at ${host}:${port}: ${cause.message}`, {
      exit: "failed",
      next: "pass another --metrics-addr",
      cause,
    });
  });
  return server;
}

async function reached<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof CodeqError)) throw error;
    throw new CliError(error.message, { exit: "unreachable", cause: error });
  }
}
