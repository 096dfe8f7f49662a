/** What happened in several queues in each of the last whole minutes, as for small charts in a list of queues. */
import { limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import { type Flow, minuteMs, noFlow } from "../../core/series/flow.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

export interface GetTrendsInput {
  readonly commands: readonly string[];
  /** The number of minutes. */
  readonly last: number;
}

export interface Trends {
  /** When the first of the minutes began. */
  readonly fromMs: number;
  /** Each queue with its minutes in their order. */
  readonly queues: readonly { readonly queue: string; readonly minutes: readonly Flow[] }[];
}

export const getTrends: Operation<GetTrendsInput, Trends> = {
  name: "get_trends",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ commands }) => commands.join(",") },
  run: async ({ queue, clock }, call, { commands, last }) => {
    const { trendQueuesMax, trendMinutesMax } = limits;
    if (commands.length > trendQueuesMax) {
      const text = `at most ${trendQueuesMax} queues in one request, got ${commands.length}; ask for the others in another request`;
      return refusal("invalid_argument", text);
    }
    if (!commands.every((each) => limits.commandPattern.test(each))) {
      return refusal("invalid_command");
    }
    if (last < 1 || last > trendMinutesMax) {
      return refusal("invalid_argument", `invalid 'last' (1 to ${trendMinutesMax})`);
    }
    const end = Math.floor(clock.nowMs() / minuteMs);
    const from = end - last;
    const { tenantId } = call.identity;
    const trendOf = async (name: string): Promise<Trends["queues"][number]> => {
      // The running minute has a point after a restart.
      const points = await queue.seriesOf({ name, tenantId, unit: "m", last: last + 1 });
      const minutes = new Array<Flow>(last).fill(noFlow());
      for (const point of points) {
        const index = point.number - from;
        if (index >= 0 && index < last) minutes[index] = point;
      }
      return { queue: name, minutes };
    };
    const names = [...new Set(commands.map(queueOf))];
    const queues = await Promise.all(names.map(trendOf));
    return { ok: true, value: { fromMs: from * minuteMs, queues } };
  },
};
