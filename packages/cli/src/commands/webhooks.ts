/** `webhooks`: outcomes of webhooks, failing endpoints, and signing secrets. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { printable } from "../terminal/style.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { counted, duration, localMoment } from "../terminal/units.ts";

interface Try {
  readonly at: string;
  readonly status?: number;
  readonly durationMs: number;
  readonly error?: string;
}

interface Deliveries {
  readonly taskId: string;
  readonly url?: string;
  readonly state: string;
  readonly error?: string;
  readonly nextTryAt?: string;
  readonly total: number;
  readonly tries: readonly Try[];
}

interface Failed {
  readonly taskId: string;
  readonly command: string;
  readonly url: string;
  readonly failedAt: string;
  readonly error: string;
}

interface Endpoint {
  readonly url: string;
  readonly disabled: boolean;
  readonly failingSince: string;
  readonly error: string;
}

interface Secret {
  readonly id: string;
  readonly createdAt?: string;
  readonly createdBy?: string;
  readonly validUntil?: string;
}

const pageItems = 500;

export async function log(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get(`/admin/tasks/${encodeURIComponent(call.word(0))}/deliveries`);
  if (call.json) {
    call.print(text);
    return exitCodes.ok.code;
  }
  const deliveries = JSON.parse(text) as Deliveries;
  call.print(sentenceOf(deliveries));
  const { tries } = deliveries;
  if (tries.length > 0) for (const line of tableLines(ofTries, tries, call.style)) call.print(line);
  return exitCodes.ok.code;
}

function sentenceOf({ state, url = "", error = "", nextTryAt, total }: Deliveries): string {
  if (state === "none") return "the task has no webhook";
  if (state === "pending") return `${url}: the task has not ended`;
  const next = nextTryAt === undefined ? "" : `, next try ${localMoment(nextTryAt)}`;
  const why = error === "" ? "" : `: ${printable(error)}`;
  return `${url}: ${state} after ${total === 1 ? "1 try" : `${total} tries`}${next}${why}`;
}

const ofTries: readonly Column<Try>[] = [
  { title: "AT", show: ({ at }) => localMoment(at) },
  { title: "STATUS", show: ({ status }) => (status === undefined ? "-" : String(status)) },
  { title: "TOOK", align: "right", show: ({ durationMs }) => duration(durationMs) },
  { title: "ERROR", show: ({ error = "" }) => printable(error) },
];

export async function failed(call: Call): Promise<number> {
  const api = await call.api();
  const since = call.options.instant("since");
  const query = new URLSearchParams({ limit: String(pageItems) });
  if (since !== undefined) query.set("since", since);
  const all: Failed[] = [];
  for (;;) {
    const { text } = await api.get(`/admin/webhooks/failed?${query}`);
    const page = JSON.parse(text) as { failed: Failed[]; next?: string };
    all.push(...page.failed);
    if (page.next === undefined) break;
    query.set("after", page.next);
  }
  if (call.json) for (const each of all) call.printJson(each);
  else if (all.length === 0) call.print("no webhook was given up");
  else for (const line of tableLines(ofFailed, all, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const ofFailed: readonly Column<Failed>[] = [
  { title: "TASK", show: ({ taskId }) => taskId.slice(-8) },
  { title: "COMMAND", show: ({ command }) => command },
  { title: "GIVEN UP", show: ({ failedAt }) => localMoment(failedAt) },
  { title: "URL", show: ({ url }) => printable(url) },
  { title: "ERROR", show: ({ error }) => printable(error) },
];

/** One task, or all that were given up since a moment. */
export async function redeliver(call: Call): Promise<number> {
  const [id] = call.words;
  const since = call.options.instant("since");
  if ((id === undefined) === (since === undefined)) {
    throw usageError("give the id of a task, or --since with a moment");
  }
  const api = await call.api();
  if (id !== undefined) {
    const { text } = await api.post(`/admin/tasks/${encodeURIComponent(id)}/redeliver`, "");
    if (call.json) call.print(text);
    else call.print(`${(JSON.parse(text) as Deliveries).taskId} is sent to its webhook again`);
    return exitCodes.ok.code;
  }
  const { options } = call;
  const limit = options.wholeNumber("limit", { min: 1, max: 10_000 });
  const dryRun = options.has("dry-run") ? true : undefined;
  const body = JSON.stringify({ since, url: options.text("url"), limit, dryRun });
  const { text } = await api.post("/admin/webhooks/redeliver", body);
  const done = JSON.parse(text) as Outcome;
  if (call.json) call.print(text);
  else for (const line of linesOf(done, dryRun === true)) call.print(line);
  return done.failed.length === 0 ? exitCodes.ok.code : exitCodes.refused.code;
}

interface Outcome {
  readonly matched: number;
  readonly redelivered: number;
  readonly failed: readonly { readonly id: string; readonly code: string }[];
  readonly hasMore: boolean;
}

function linesOf({ matched, redelivered, failed, hasMore }: Outcome, isDryRun: boolean): string[] {
  const head = isDryRun
    ? `${counted(matched, "webhook")} would be sent again`
    : `${counted(redelivered, "webhook")} sent again`;
  const more = hasMore ? ["there are more; run the command again for the rest"] : [];
  return [head, ...failed.map(({ id, code }) => `${id}: ${code}`), ...more];
}

export async function endpoints(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get("/admin/webhooks/endpoints");
  const found = JSON.parse(text) as { endpoints: Endpoint[] };
  if (call.json) call.print(text);
  else if (found.endpoints.length === 0) call.print("no endpoint fails");
  else for (const line of tableLines(ofEndpoints, found.endpoints, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const ofEndpoints: readonly Column<Endpoint>[] = [
  { title: "URL", show: ({ url }) => printable(url) },
  { title: "STATE", show: ({ disabled }) => (disabled ? "disabled" : "failing") },
  { title: "SINCE", show: ({ failingSince }) => localMoment(failingSince) },
  { title: "ERROR", show: ({ error }) => printable(error) },
];

export async function enable(call: Call): Promise<number> {
  const api = await call.api();
  const body = JSON.stringify({ url: call.word(0) });
  const { text } = await api.post("/admin/webhooks/endpoints/enable", body);
  if (call.json) call.print(text);
  else call.print(`webhooks go to ${call.word(0)} again; codeq webhooks redeliver sends old ones`);
  return exitCodes.ok.code;
}

export async function secrets(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get("/admin/webhooks/secrets");
  const found = JSON.parse(text) as { secrets: Secret[] };
  if (call.json) call.print(text);
  else if (found.secrets.length === 0) {
    call.print(
      "the tenant has no secret of its own; the secrets of the configuration sign its webhooks",
    );
  } else for (const line of tableLines(ofSecrets, found.secrets, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const ofSecrets: readonly Column<Secret>[] = [
  { title: "ID", show: ({ id }) => id },
  { title: "CREATED", show: ({ createdAt }) => momentOr(createdAt, "-") },
  { title: "BY", show: ({ createdBy = "-" }) => printable(createdBy) },
  { title: "SIGNS UNTIL", show: ({ validUntil }) => momentOr(validUntil, "revoked") },
];

function momentOr(text: string | undefined, without: string): string {
  return text === undefined ? without : localMoment(text);
}

export async function rotate(call: Call): Promise<number> {
  const overlapMs = call.options.durationMs("overlap");
  const overlapSeconds = overlapMs === undefined ? undefined : Math.ceil(overlapMs / 1000);
  const api = await call.api();
  const { text } = await api.post("/admin/webhooks/secrets", JSON.stringify({ overlapSeconds }));
  if (call.json) {
    call.print(text);
    return exitCodes.ok.code;
  }
  const { id, secret } = JSON.parse(text) as Secret & { secret: string };
  call.print(secret);
  call.note(`secret ${id} created; copy it now, it won't be shown again`);
  return exitCodes.ok.code;
}

export async function revoke(call: Call): Promise<number> {
  const id = call.word(0);
  const api = await call.api();
  await api.delete(`/admin/webhooks/secrets/${encodeURIComponent(id)}`);
  if (call.json) call.printJson({ id, revoked: true });
  else call.print(`${id} is revoked`);
  return exitCodes.ok.code;
}
