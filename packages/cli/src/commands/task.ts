/**
 * Commands on one task: `get` shows it; `cancel`, `move`, `run-now`, `reschedule`, `set-priority` and `edit` change it;
 * `artifacts` lists or downloads the files of its result; `heartbeat`, `nack` and `abandon` do by hand what the
 * worker that holds it does.
 */

import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { limits } from "@codeq/server/command-line";
import { taskIn, taskLines, wholeId } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { checkCommand, readPayload } from "../payload.ts";
import { printable } from "../terminal/style.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { bytes, localMoment } from "../terminal/units.ts";
import type { ListedTask } from "./tasks.ts";

export async function show(call: Call): Promise<void> {
  const api = await call.api();
  const id = await wholeId(call, call.word(0));
  const isGo = call.row.group === "go";
  const query = !isGo && call.options.has("local") ? "?consistency=local" : "";
  const { text } = await api.get(`/tasks/${encodeURIComponent(id)}${query}`);
  if (call.json || isGo) call.print(text);
  else for (const line of taskLines(taskIn(text), call.style)) call.print(line);
}

export async function cancel(call: Call): Promise<void> {
  const graceMs = call.options.durationMs("grace");
  const graceSeconds = graceMs === undefined ? undefined : Math.ceil(graceMs / 1000);
  const api = await call.api();
  const path = `/admin/tasks/${encodeURIComponent(call.word(0))}/cancel`;
  const { text } = await api.post(path, JSON.stringify({ graceSeconds }));
  const { id, place, workerId } = (JSON.parse(text) as { task: ListedTask }).task;
  const asked = `asked ${workerId} to stop ${id}; the worker loses the task when the grace period is over`;
  call.answer(text, place === "leased" ? asked : `cancelled ${id}`);
}

export function move(call: Call): Promise<void> {
  return edit(call, `"command":${JSON.stringify(checkCommand(call.word(1)))}`);
}

export function runNow(call: Call): Promise<void> {
  return edit(call, `"delaySeconds":0`);
}

export function reschedule(call: Call): Promise<void> {
  const delayMs = call.options.durationMs("delay");
  const runAt = call.options.instant("run-at");
  if ((delayMs === undefined) === (runAt === undefined)) {
    throw usageError("pass either --delay or --run-at");
  }
  if (runAt !== undefined) return edit(call, `"runAt":${JSON.stringify(runAt)}`);
  return edit(call, `"delaySeconds":${Math.ceil((delayMs ?? 0) / 1000)}`);
}

export function setPriority(call: Call): Promise<void> {
  const text = call.word(1);
  if (!/^\d$/.test(text)) {
    throw usageError(`a priority is a number from 0 to ${limits.priorityMax}, not ${text}`);
  }
  return edit(call, `"priority":${text}`);
}

/** Put together as text, because the server keeps the payload as it was written. */
export async function payload(call: Call): Promise<void> {
  return edit(call, `"payload":${await readPayload(call, call.word(1), call.options.has("text"))}`);
}

async function edit(call: Call, member: string): Promise<void> {
  const api = await call.api();
  const { text } = await api.patch(
    `/admin/tasks/${encodeURIComponent(call.word(0))}`,
    `{${member}}`,
  );
  call.answer(text, sentenceOf((JSON.parse(text) as { task: ListedTask }).task));
}

function sentenceOf({ id, command, place, priority = 0, dueAt }: ListedTask): string {
  const where = dueAt === undefined ? place : `${place} until ${localMoment(dueAt)}`;
  return `${id} is ${where} in ${command}, priority ${priority}`;
}

interface Artifact {
  readonly name: string;
  readonly url: string;
  readonly bytes?: number;
  readonly contentType?: string;
}

export async function listArtifacts(call: Call): Promise<void> {
  const id = await wholeId(call, call.word(0));
  const api = await call.api();
  const { text } = await api.get(`/tasks/${encodeURIComponent(id)}/result`);
  const { artifacts = [] } = (JSON.parse(text) as { result: { artifacts?: Artifact[] } }).result;
  if (call.json) for (const each of artifacts) call.printJson(each);
  else if (artifacts.length === 0) call.print("the result has no artifacts");
  else for (const line of tableLines(columns, artifacts, call.style)) call.print(line);
}

const columns: readonly Column<Artifact>[] = [
  { title: "NAME", show: ({ name }) => printable(name) },
  {
    title: "SIZE",
    align: "right",
    show: (each) => (each.bytes === undefined ? "-" : bytes(each.bytes)),
  },
  { title: "TYPE", show: ({ contentType = "link" }) => printable(contentType) },
  { title: "URL", show: ({ url }) => printable(url) },
];

/** Into a file of the same name, unless told. */
export async function get(call: Call): Promise<void> {
  const id = await wholeId(call, call.word(0));
  const name = call.word(1);
  const api = await call.api();
  const path = `/tasks/${encodeURIComponent(id)}/artifacts/${encodeURIComponent(name)}`;
  const content = await api.download(path);
  const output = call.options.text("output") ?? join(call.host.directory, name);
  await pipeline(content, createWriteStream(output, { flags: "wx" }));
  call.answer({ name, output }, `wrote ${output}`);
}

export async function heartbeat(call: Call): Promise<void> {
  const extendMs = call.options.durationMs("extend");
  await send(call, "heartbeat", { extendSeconds: wholeSeconds(extendMs) });
  call.answer({ id: call.word(0), ok: true }, `extended ${call.word(0)}`);
}

export async function nack(call: Call): Promise<void> {
  const text = await send(call, "nack", {
    delaySeconds: wholeSeconds(call.options.durationMs("delay")),
    reason: call.options.text("reason"),
  });
  const { delaySeconds } = JSON.parse(text) as { delaySeconds: number };
  showEnd(call, text, `will be retried${delaySeconds > 0 ? ` in ${delaySeconds} s` : ""}`);
}

export async function abandon(call: Call): Promise<void> {
  const interrupted = call.options.has("interrupted") ? true : undefined;
  showEnd(call, await send(call, "abandon", { interrupted }), "is ready again");
}

/** How the attempt ended, unless the task became a dead letter. */
function showEnd(call: Call, text: string, otherwise: string): void {
  const id = call.word(0);
  const ended = JSON.parse(text) as { status: string };
  const words = ended.status === "dlq" ? "is a dead letter: it used up its attempts" : otherwise;
  call.answer({ id, ...ended }, `${id} ${words}`);
}

async function send(
  call: Call,
  verb: string,
  fields: Readonly<Record<string, unknown>>,
): Promise<string> {
  const api = await call.api();
  const max = Number.MAX_SAFE_INTEGER;
  const leaseToken = call.options.wholeNumber("lease-token", { min: 0, max });
  const body = JSON.stringify({ ...fields, leaseToken });
  const path = `/tasks/${encodeURIComponent(await wholeId(call, call.word(0)))}/${verb}`;
  return (await api.post(path, body, { as: "worker" })).text;
}

function wholeSeconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.min(Math.ceil(ms / 1000), limits.delaySecondsMax);
}
