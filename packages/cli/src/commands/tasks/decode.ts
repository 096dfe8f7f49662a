/** `decode`: shows payload and result of a task that are encrypted, with keys that only this process has. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { aesGcm, type Codec } from "@codeq/client/command-line";
import { taskOf } from "../../api/task-view.ts";
import type { Call } from "../../call.ts";
import { CliError, usageError } from "../../cli-error.ts";
import { parseExact, prettyJson, readPayload } from "../../payload.ts";

export async function run(call: Call): Promise<void> {
  const codec = codecOf(call);
  if (call.word(0) === "-") {
    const text = await plain(codec, await readPayload(call, "-", false));
    call.print(call.json ? text : prettyJson(text));
    return;
  }
  const api = await call.api();
  const given = { params: await taskOf(call) };
  const { value } = await api.call("GET /tasks/:id", given);
  const payload = await plain(codec, value.payload ?? "null");
  const reply = await api.reply("GET /tasks/:id/result", given);
  const text = reply.status === 200 ? reply.text : "{}";
  const stored = parseExact<{ readonly result?: { readonly result?: unknown } }>(text);
  const result = stored.result?.result;
  const output = result === undefined ? undefined : await plain(codec, JSON.stringify(result));
  if (call.json) {
    const members = output === undefined ? "" : `,"result":${output}`;
    call.print(`{"payload":${payload}${members}}`);
    return;
  }
  call.print(call.style.dim("payload"));
  call.print(prettyJson(payload));
  if (output === undefined) return;
  call.print(call.style.dim("result"));
  call.print(prettyJson(output));
}

function codecOf({ host, options }: Call): Codec {
  const given = options.text("keys") ?? host.env["CODEQ_KEYS"];
  if (given === undefined) {
    const next = 'a JSON file with names and keys in base64, such as {"june":"..."}';
    throw usageError("--keys is missing", next);
  }
  const path = resolve(host.directory, given);
  try {
    const keys: Readonly<Record<string, string>> = JSON.parse(readFileSync(path, "utf8"));
    return aesGcm({ keys, current: Object.keys(keys)[0], acceptPlain: true });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw usageError(`the keys in ${path} cannot be used: ${why}`);
  }
}

async function plain(codec: Codec, text: string): Promise<string> {
  try {
    return await codec.decode(text);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new CliError(text, { exit: "failed", cause: error });
  }
}
