/** `artifacts`: lists or downloads the files of a result. */
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { wholeId } from "../api/whole-id.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { printable } from "../terminal/printable.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { bytes } from "../terminal/units.ts";

interface Artifact {
  readonly name: string;
  readonly url: string;
  readonly bytes?: number;
  readonly contentType?: string;
}

export async function list(call: Call): Promise<number> {
  const id = await wholeId(call, call.word(0));
  const api = await call.api();
  const { text } = await api.get(`/tasks/${encodeURIComponent(id)}/result`);
  const { artifacts = [] } = (JSON.parse(text) as { result: { artifacts?: Artifact[] } }).result;
  if (call.json) for (const each of artifacts) call.printJson(each);
  else if (artifacts.length === 0) call.print("the result has no artifacts");
  else for (const line of tableLines(columns, artifacts, call.style)) call.print(line);
  return exitCodes.ok.code;
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
export async function get(call: Call): Promise<number> {
  const id = await wholeId(call, call.word(0));
  const name = call.word(1);
  const api = await call.api();
  const path = `/tasks/${encodeURIComponent(id)}/artifacts/${encodeURIComponent(name)}`;
  const content = await api.download(path);
  const output = call.options.text("output") ?? join(call.host.directory, name);
  await pipeline(content, createWriteStream(output, { flags: "wx" }));
  if (call.json) call.printJson({ name, output });
  else call.print(`wrote ${output}`);
  return exitCodes.ok.code;
}
