/** `artifacts`: lists or downloads the files of the result of a task. */
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { ask } from "../../api/contract-commands.ts";
import { type TaskResult, taskOf } from "../../api/task-view.ts";
import type { Call } from "../../call.ts";
import { printable } from "../../terminal/style.ts";
import { type Column, tableLines } from "../../terminal/table.ts";
import { bytes } from "../../terminal/units.ts";

export async function list(call: Call): Promise<void> {
  const given = { params: await taskOf(call) };
  const { artifacts = [] } = (await ask(call, "GET /tasks/:id/result", given)).value.result;
  if (call.json) for (const each of artifacts) call.printJson(each);
  else if (artifacts.length === 0) call.print("the result has no artifacts");
  else for (const line of tableLines(columns, artifacts, call.style)) call.print(line);
}

type Artifact = NonNullable<TaskResult["result"]["artifacts"]>[number];

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

/** Downloads to a file with the name of the artifact, or to `--output`. */
export async function get(call: Call): Promise<void> {
  const name = call.word(1);
  const params = { ...(await taskOf(call)), name };
  const api = await call.api();
  const content = await api.download("GET /tasks/:id/artifacts/:name", { params });
  const output = call.options.text("output") ?? join(call.host.directory, name);
  await pipeline(content, createWriteStream(output, { flags: "wx" }));
  call.answer({ name, output }, `wrote ${output}`);
}
