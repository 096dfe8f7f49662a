/** `webhooks`: outcomes of webhooks, failing endpoints, and signing secrets. */
import type { ItemOf, ReplyOf } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import * as contract from "../api/contract-commands.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { printable } from "../terminal/style.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { counted, duration, localMoment, momentOr } from "../terminal/units.ts";

type Deliveries = ReplyOf<"GET /admin/tasks/:id/deliveries">;
type Outcome = ReplyOf<"POST /admin/webhooks/redeliver">;

export function log(call: Call): Promise<void> {
  const given = { params: { id: call.word(0) } };
  return contract.print(call, ["GET /admin/tasks/:id/deliveries", given], (deliveries) => {
    const { tries } = deliveries;
    const lines = tries.length === 0 ? [] : tableLines(ofTries, tries, call.style);
    return [sentenceOf(deliveries), ...lines].join("\n");
  });
}

function sentenceOf({ state, url = "", error = "", nextTryAt, total }: Deliveries): string {
  if (state === "none") return "the task has no webhook";
  if (state === "pending") return `${url}: the task has not ended`;
  const next = nextTryAt === undefined ? "" : `, next try ${localMoment(nextTryAt)}`;
  const why = error === "" ? "" : `: ${printable(error)}`;
  return `${url}: ${state} after ${total === 1 ? "1 try" : `${total} tries`}${next}${why}`;
}

const ofTries: readonly Column<Deliveries["tries"][number]>[] = [
  { title: "AT", show: ({ at }) => localMoment(at) },
  { title: "STATUS", show: ({ status }) => (status === undefined ? "-" : String(status)) },
  { title: "TOOK", align: "right", show: ({ durationMs }) => duration(durationMs) },
  { title: "ERROR", show: ({ error = "" }) => printable(error) },
];

export function failed(call: Call): Promise<void> {
  const query = { since: call.options.instant("since") };
  return contract.showAll(call, "GET /admin/webhooks/failed", {
    columns: ofFailed,
    none: "no webhook was given up",
    query,
    isLines: true,
  });
}

const ofFailed: readonly Column<ItemOf<"GET /admin/webhooks/failed">>[] = [
  { title: "TASK", show: ({ taskId }) => taskId.slice(-8) },
  { title: "COMMAND", show: ({ command }) => command },
  { title: "GIVEN UP", show: ({ failedAt }) => localMoment(failedAt) },
  { title: "URL", show: ({ url }) => printable(url) },
  { title: "ERROR", show: ({ error }) => printable(error) },
];

/** One task, or all that were given up since a moment. */
export async function redeliver(call: Call): Promise<number> {
  const [id] = call.words;
  const { options } = call;
  const since = options.instant("since");
  if (id !== undefined && since === undefined) {
    const given = { params: { id } };
    await contract.print(
      call,
      ["POST /admin/tasks/:id/redeliver", given],
      ({ taskId }) => `${taskId} is sent to its webhook again`,
    );
    return exitCodes.ok.code;
  }
  if (id !== undefined || since === undefined) {
    throw usageError("give the id of a task, or --since with a moment");
  }
  const limit = options.wholeNumber("limit", { min: 1, max: limits.bulkLimitMax });
  const dryRun = options.has("dry-run") ? true : undefined;
  const body = { since, url: options.text("url"), limit, dryRun };
  const { text, value } = await contract.ask(call, "POST /admin/webhooks/redeliver", { body });
  if (call.json) call.print(text);
  else for (const line of linesOf(value, dryRun === true)) call.print(line);
  return value.failed.length === 0 ? exitCodes.ok.code : exitCodes.refused.code;
}

function linesOf({ matched, redelivered, failed, hasMore }: Outcome, isDryRun: boolean): string[] {
  const head = isDryRun
    ? `${counted(matched, "webhook")} would be sent again`
    : `${counted(redelivered, "webhook")} sent again`;
  const more = hasMore ? ["there are more; run the command again for the rest"] : [];
  return [head, ...failed.map(({ id, code }) => `${id}: ${code}`), ...more];
}

export function endpoints(call: Call): Promise<void> {
  return contract.showList(call, ["GET /admin/webhooks/endpoints"], {
    columns: ofEndpoints,
    none: "no endpoint fails",
  });
}

const ofEndpoints: readonly Column<ItemOf<"GET /admin/webhooks/endpoints">>[] = [
  { title: "URL", show: ({ url }) => printable(url) },
  { title: "STATE", show: ({ disabled }) => (disabled ? "disabled" : "failing") },
  { title: "SINCE", show: ({ failingSince }) => localMoment(failingSince) },
  { title: "ERROR", show: ({ error }) => printable(error) },
];

export function enable(call: Call): Promise<void> {
  const url = call.word(0);
  return contract.print(
    call,
    ["POST /admin/webhooks/endpoints/enable", { body: { url } }],
    () => `webhooks go to ${url} again; codeq webhooks redeliver sends old ones`,
  );
}

export function secrets(call: Call): Promise<void> {
  return contract.showList(call, ["GET /admin/webhooks/secrets"], {
    columns: ofSecrets,
    none: "the tenant has no secret of its own; the secrets of the configuration sign its webhooks",
  });
}

const ofSecrets: readonly Column<ItemOf<"GET /admin/webhooks/secrets">>[] = [
  { title: "ID", show: ({ id }) => id },
  { title: "CREATED", show: ({ createdAt }) => momentOr(createdAt, "-") },
  { title: "BY", show: ({ createdBy = "-" }) => printable(createdBy) },
  { title: "SIGNS UNTIL", show: ({ validUntil }) => momentOr(validUntil, "revoked") },
];

export async function rotate(call: Call): Promise<void> {
  const body = contract.bodyOf(call, "POST /admin/webhooks/secrets");
  const { text, value } = await contract.ask(call, "POST /admin/webhooks/secrets", { body });
  call.print(call.json ? text : value.secret);
  if (!call.json) call.note(`secret ${value.id} created; copy it now, it won't be shown again`);
}

export function revoke(call: Call): Promise<void> {
  const id = call.word(0);
  return contract.remove(call, ["DELETE /admin/webhooks/secrets/:id", { params: { id } }], {
    json: { id, revoked: true },
    done: `${id} is revoked`,
  });
}
