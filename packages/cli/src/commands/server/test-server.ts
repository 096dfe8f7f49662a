/**
 * `test-server`: a server for the tests of clients in any language. It keeps everything in memory, and its clock stands
 * still until a line of the standard input moves it. It ends with its input, so it does not outlive a test that is
 * killed.
 */
import { openInProcess } from "@codeq/server";
import { SimClock } from "@codeq/server/simulated";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";

/** Settings that apply beside those of the environment. */
const ports = {
  HOST: "127.0.0.1",
  PORT: "0",
  WORKER_STREAM_ADDR: "127.0.0.1:0",
  PRODUCER_STREAM_ADDR: "127.0.0.1:0",
};
const millisecondsMax = 366 * 86_400_000;

export async function run(call: Call): Promise<number> {
  const { host } = call;
  const clock = new SimClock({ wallMs: host.clock.nowMs() });
  const draw = (): number => host.random(4).readUInt32LE() / 2 ** 32;
  await using server = await openInProcess({
    env: { ...environmentOf(call), ...ports },
    clock,
    draw,
    randomBytes: (into) => void host.random(into.length).copy(into),
    defer: (run) => void setImmediate(run),
    // Nothing leaves a test.
    post: () => Promise.resolve(200),
    notify: () => Promise.resolve(200),
    log: () => {},
  });
  const listening = await server.listen();
  const { port, workerStreamPort } = listening.ports;
  const now = (): string => new Date(clock.nowMs()).toISOString();
  const url = `http://127.0.0.1:${port}`;
  call.printJson({ event: "ready", url, streams: `127.0.0.1:${workerStreamPort}`, now: now() });
  try {
    for await (const line of linesOf(host.input.text())) {
      await clock.advance(advanceOf(line));
      call.printJson({ event: "advanced", now: now() });
    }
  } finally {
    await listening.close(0);
  }
  return 0;
}

function environmentOf({ host }: Call): Record<string, string> {
  const given = Object.entries(host.env).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Record<string, string>;
}

async function* linesOf(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const piece of pieces) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.filter((line) => line.trim() !== "");
  }
}

/** The milliseconds that a line asks for. */
function advanceOf(line: string): number {
  const [, amount = ""] = /^advance (\d+)$/.exec(line.trim()) ?? [];
  if (amount !== "" && Number(amount) <= millisecondsMax) return Number(amount);
  throw usageError(
    `test-server does not understand the line ${JSON.stringify(line)}`,
    'write "advance" and whole milliseconds, at most a year: advance 3600000',
  );
}
