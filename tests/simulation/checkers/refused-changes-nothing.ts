/**
 * A request that was refused has no effect, then or later. Requests carry texts that nobody else
 * uses, so that their effects can be told apart. Only a failed storage leaves open what happened.
 */
import type { TaskId } from "@codeq/queue";
import { type AnyExchange, type AnyRequest, touchedBy } from "../exchange.ts";
import type { LedgerEvent, Version } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

/** The texts by which the effects of a request are known. */
function marksOf(request: AnyRequest): string[] {
  switch (request.verb) {
    case "createTask":
      return [request.input.payload];
    case "createTasks":
      return request.input.map(({ payload }) => payload);
    case "submitResult":
      return [request.input.resultJson ?? request.input.error];
    case "submitResults":
      return request.input.map(({ resultJson, error }) => resultJson ?? error);
    case "editTask":
      return [request.input.payload ?? ""];
    case "nackTask":
      return [request.input.reason];
    default:
      return [];
  }
}

/** The marks of the parts that were refused. */
function refusedMarks(exchange: AnyExchange): string[] {
  const marks = marksOf(exchange as AnyRequest);
  const { answer } = exchange;
  if (!answer.ok) return answer.code === "storage_failed" ? [] : marks;
  if (exchange.verb !== "createTasks" && exchange.verb !== "submitResults") return [];
  const parts = answer.value as readonly { readonly ok: boolean; readonly code?: string }[];
  return marks.filter((_mark, position) => {
    const part = parts[position];
    return part?.ok === false && part.code !== "storage_failed";
  });
}

const refusedMax = 200;
/** A lease begins before its record reaches the log. */
const slackMs = 2000;

export const refusedChangesNothing: MakeChecker = ({ world, report }) => {
  /** How often each mark was sent; what is sent again may be there because of the first time. */
  const sent = new Map<string, number>();
  const refused = new Map<string, number>();
  /** How often requests have named a task, and when the last two did. */
  const touches = new Map<string, { count: number; lastMs: number; beforeMs: number }>();
  /** Tasks that somebody tried to give back in vain, as they were then. */
  const abandons = new Map<TaskId, { number: number; touches: number; version: Version }>();
  const remember = (mark: string, number: number): void => {
    if (mark === "" || sent.get(mark) !== 1) return;
    refused.set(mark, number);
    const [oldest] = refused.keys();
    if (refused.size > refusedMax && oldest !== undefined) refused.delete(oldest);
  };
  const rememberAbandon = (exchange: AnyExchange): void => {
    if (exchange.verb !== "abandonTask" || exchange.answer.ok) return;
    const { id } = exchange.input;
    const version = world.ledger.versions.get(id)?.at(-1);
    if (exchange.answer.code === "storage_failed" || version === undefined) return;
    const touched = touches.get(id);
    // A heartbeat may have made the lease shorter than the record says.
    if (touched === undefined || touched.beforeMs >= version.record.atMs) return;
    abandons.set(id, { number: exchange.number, touches: touched.count, version });
  };
  const checkAbandon = ({ id, kind, before, after, record }: LedgerEvent): void => {
    const refusal = abandons.get(id);
    abandons.delete(id);
    if (refusal === undefined || before?.place.in !== "leased") return;
    if (kind !== "comeback" && kind !== "bury") return;
    // What could not be sent to its worker goes back without being counted.
    if (after?.attempts === before.attempts && after.handBacks === before.handBacks) return;
    const { number, version } = refusal;
    // Somebody else spoke for the task meanwhile, or its lease may have run out.
    const isSpokenFor = before !== version.task || touches.get(id)?.count !== refusal.touches;
    const isSameLease = (world.life?.bootMs ?? 0) < version.record.atMs;
    const hasEnded = record.atMs >= version.record.atMs + before.place.leaseMs - slackMs;
    const isRebuilt = world.life?.rolledBackMs !== undefined;
    if (isSpokenFor || !isSameLease || hasEnded || isRebuilt) return;
    report(`the refused ${number} gave ${id} back`);
  };
  return {
    invoked: (request) => {
      for (const mark of marksOf(request)) {
        sent.set(mark, (sent.get(mark) ?? 0) + 1);
        refused.delete(mark);
      }
      for (const id of touchedBy(request)) {
        const { count, lastMs } = touches.get(id) ?? { count: 0, lastMs: 0 };
        touches.set(id, { count: count + 1, lastMs: request.invokedMs, beforeMs: lastMs });
      }
    },
    answered: (exchange) => {
      for (const mark of refusedMarks(exchange)) remember(mark, exchange.number);
      rememberAbandon(exchange);
    },
    event: (event) => {
      const { id, after } = event;
      checkAbandon(event);
      const number = refused.get(after?.error ?? "");
      if (number !== undefined) report(`the refused ${number} left its reason on ${id}`);
    },
    stepped: () => {
      for (const [mark, number] of refused) {
        if (world.ledger.texts.has(mark)) report(`the refused ${number} wrote ${mark}`);
      }
    },
  };
};
