/**
 * Replays or deletes failures (dead letters and failed tasks) of the caller's tenant: by ids, by a filter, or all of them. A request
 * changes a bounded number; repeat it for the rest.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { api, type BulkOutcome, type KeptOf } from "@codeq/protocol/api";
import type { TaskId } from "@codeq/queue";
import type { TaskAction } from "../../core/search/task-actions.ts";
import type { TaskFilter } from "../../core/search/task-filter.ts";
import { bind, type InputOf } from "../../edge/bind.ts";
import { problemOfSearch } from "../../edge/hidden-payloads.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { describeFilter, readFilter, wholeId } from "../../edge/task-filter-input.ts";
import { answerOfAction } from "./act-on-task.ts";

type Input = InputOf<typeof api.deadLetters.replayDeadLetters>;
type Done = KeptOf<typeof BulkOutcome>;

const failedMax = 100;
/** The number of changes that are under way at a time. */
const pieceTasks = 200;

const acting = (action: TaskAction) => ({
  run: async (server: Server, call: Call, input: Input): Promise<Answer<Done>> => {
    const { ids, isAll, isDryRun } = input;
    const hidden = problemOfSearch(call, input);
    if (hidden !== undefined) return hidden;
    const filter = readFilter(input);
    if (!filter.ok) return filter;
    const isFiltered = Object.keys(filter.value).length > 0;
    if (Number(ids.length > 0) + Number(isFiltered) + Number(isAll) !== 1) {
      return refusal("invalid_argument", "pass one of 'ids', a filter, or 'all': true");
    }
    const run = new Run(server, call, { action, isDryRun });
    const refused =
      ids.length > 0
        ? await run.named(ids)
        : await run.found(filter.value, input.limit || limits.bulkLimitDefault);
    return refused ?? { ok: true, value: run.done };
  },
  audit: {
    target: describe,
    detail: ({ matched, changed }: Done) => `${changed} of ${matched} tasks`,
  } as const,
});

export const replayDeadLetters = bind(
  api.deadLetters.replayDeadLetters,
  acting({ kind: "replay" }),
);
export const deleteDeadLetters = bind(
  api.deadLetters.deleteDeadLetters,
  acting({ kind: "delete" }),
);

/** What was asked for, for the audit trail. */
function describe({ ids, isAll, isDryRun, ...filter }: Input): string {
  const dry = isDryRun ? "dry run: " : "";
  if (isAll) return `${dry}all`;
  return dry + (ids.length > 0 ? ids.join(" ") : describeFilter(filter));
}

class Run {
  readonly #server: Server;
  readonly #call: Call;
  readonly #action: TaskAction;
  readonly #isDryRun: boolean;
  #matched = 0;
  #changed = 0;
  #hasMore = false;
  #failed: { readonly id: string; readonly code: ErrorCode }[] = [];
  /** Nothing more will be taken, for this reason. */
  #stop: Refusal | undefined;

  constructor(
    server: Server,
    call: Call,
    how: { readonly action: TaskAction; readonly isDryRun: boolean },
  ) {
    this.#server = server;
    this.#call = call;
    this.#action = how.action;
    this.#isDryRun = how.isDryRun;
  }

  get done(): Done {
    return {
      matched: this.#matched,
      changed: this.#changed,
      failed: this.#failed.slice(0, failedMax),
      hasMore: this.#hasMore,
    };
  }

  async named(texts: readonly string[]): Promise<Refusal | undefined> {
    const ids: TaskId[] = [];
    for (const text of texts) {
      const id = await wholeId(this.#server, this.#call, text);
      if (id.ok) ids.push(id.value);
      else this.#failed.push({ id: text, code: id.code });
    }
    for (let at = 0; at < ids.length; at += pieceTasks) {
      await this.#actOn(await this.#failures(ids.slice(at, at + pieceTasks)));
    }
    return undefined;
  }

  /** Only those: what is done or waits is not deleted because its id is in a list. */
  async #failures(ids: readonly TaskId[]): Promise<TaskId[]> {
    const { tenantId } = this.#call.identity;
    const places = await this.#server.broker.placesOf(tenantId, ids);
    return ids.filter((id, at) => {
      const place = places[at];
      if (place === "dead" || place === "failed") return true;
      this.#failed.push({ id, code: place === "gone" ? "not_found" : "not_failed" });
      return false;
    });
  }

  async found(filter: TaskFilter, limit: number): Promise<Refusal | undefined> {
    const wanted = {
      tenantId: this.#call.identity.tenantId,
      filter: { ...filter, place: "failure" },
      order: "oldest",
    } as const;
    let after: string | undefined = "";
    while (after !== undefined && this.#matched < limit && this.#stop === undefined) {
      const left = Math.min(pieceTasks, limit - this.#matched);
      const page = await this.#server.broker.find({ ...wanted, after, limit: left });
      if (page === undefined) return refusal("overloaded");
      await this.#actOn(page.tasks.map(({ id }) => id));
      after = page.next;
    }
    this.#hasMore = after !== undefined;
    return undefined;
  }

  async #actOn(ids: readonly TaskId[]): Promise<void> {
    this.#matched += ids.length;
    if (this.#isDryRun) return;
    const answers = await Promise.all(ids.map((id) => this.#one(id)));
    for (const [at, answer] of answers.entries()) {
      if (answer.ok) this.#changed += 1;
      else {
        this.#failed.push({ id: ids[at] as TaskId, code: answer.code });
        if (answer.code === "quota_exceeded") this.#stop = answer;
      }
    }
  }

  async #one(id: TaskId): Promise<Answer<unknown>> {
    const { tenantId } = this.#call.identity;
    const acted = await this.#server.broker.act({ tenantId, id }, this.#action);
    return answerOfAction(this.#server, acted);
  }
}
