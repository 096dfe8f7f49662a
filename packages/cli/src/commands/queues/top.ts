/** `top`: a live view of the whole server, from its metrics, and of its workers. */
import type { Call } from "../../call.ts";
import { type CliError, usageError } from "../../cli-error.ts";
import { Screen } from "../../terminal/screen.ts";
import { intervalOf, lookAgain, lookOnce } from "../../watch/look.ts";
import type { Snapshot } from "../../watch/metrics.ts";
import { lookAtWorkers, type TopLook, topFigures, topLines } from "../../watch/top-view.ts";

export async function run(call: Call): Promise<void> {
  const { host } = call;
  if (!call.json && !host.output.isTerminal) {
    throw usageError("top needs a terminal; use --json when piping", "codeq top --json");
  }
  const looks = new Looks(call);
  const intervalMs = intervalOf(call);
  if (call.json) {
    const signal = host.stopped();
    const look = async (): Promise<void> => call.printJson(asJson(await looks.next(signal)));
    const away = (error: CliError): void => call.printJson({ away: error.message });
    await lookAgain(host.clock, { look, away, intervalMs, signal });
    return;
  }
  // The first look comes before the screen, so that its failure is seen as it is.
  await looks.next();
  using screen = new Screen(host);
  const { baseUrl } = (await call.api()).connection;
  let last: readonly string[] = [];
  await lookAgain(host.clock, {
    intervalMs,
    signal: screen.quit,
    look: async () => {
      const look = await looks.next(screen.quit);
      const { columns } = host.output;
      last = topLines(look, { baseUrl: baseUrl.value, style: call.style, columns });
      screen.draw(last);
    },
    away: (error) => screen.draw([call.style.red(error.message), "", ...last]),
  });
}

/** Remembers the look before. */
class Looks {
  readonly #call: Call;
  #last: { readonly snapshot: Snapshot; readonly atMs: number } | undefined;

  constructor(call: Call) {
    this.#call = call;
  }

  async next(signal?: AbortSignal): Promise<TopLook> {
    const { clock } = this.#call.host;
    const api = await this.#call.api();
    const after = await lookOnce(api, signal);
    const workers = await lookAtWorkers(api, signal);
    const atMs = clock.monotonicMs();
    const before = this.#last ?? { snapshot: after, atMs };
    this.#last = { snapshot: after, atMs };
    const seconds = (atMs - before.atMs) / 1000;
    return { before: before.snapshot, after, workers, seconds, nowMs: clock.nowMs() };
  }
}

function asJson(look: TopLook): object {
  const { queues, ...figures } = topFigures(look);
  const { after, nowMs } = look;
  return {
    time: new Date(nowMs).toISOString(),
    ...figures,
    storage: after.storage,
    claimWaiters: after.claimWaiters,
    resultWaiters: after.resultWaiters,
    workerStreams: after.workerStreams,
    producerStreams: after.producerStreams,
    heldReadys: after.heldReadys,
    memoryBytes: after.memoryBytes,
    logBytes: after.logBytes,
    lagSeconds: after.lagSeconds,
    queues: queues.map(({ now, ...rates }) => {
      const { ready, delayed, inProgress, dlq, lanes } = now;
      return { ...rates, ready, delayed, inProgress, dlq, lanes };
    }),
    workers: look.workers ?? null,
  };
}
