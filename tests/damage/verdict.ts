/**
 * What a server makes of a damaged directory. It may refuse to start, it may refuse to answer for a
 * task whose data is damaged; whatever it answers must be what was written.
 */
import { rmSync } from "node:fs";
import { errors } from "@codeq/protocol";
import { ApiClient, type TaskJson } from "../e2e/api-client.ts";
import { type ServerProcess, spawnServer } from "../e2e/server-process.ts";
import type { Damage } from "./damages.ts";
import { copyDirectory, type Prepared } from "./prepare.ts";

export interface Verdict {
  readonly name: string;
  readonly outcome: "passed over" | "served" | "repaired" | "refused" | "wrong";
  /** What was wrong, or what the server said. */
  readonly detail: string;
}

export async function judge(subject: Prepared, damage: Damage, work: string): Promise<Verdict> {
  const { name } = damage;
  rmSync(work, { recursive: true, force: true });
  copyDirectory(subject.directory, work);
  if (!damage.apply(work)) return { name, outcome: "passed over", detail: "" };
  const server = spawnServer({ dataDir: work });
  try {
    const line = await server.line((each) => each.includes('"listening"')).catch(() => undefined);
    if (line === undefined) return await refusal(name, server);
    const { port } = JSON.parse(line) as { port: number };
    const problems = await readEverything(new ApiClient(port), subject).catch((error: Error) => [
      `the server ended while it was asked: ${error.message} ${server.stderr}`,
    ]);
    const said = server.stdout.split("\n").filter((each) => /"(warn|error)"/.test(each));
    if (problems.length > 0) {
      const detail = `${problems.length} wrong, such as: ${problems[0]}; said ${said.join(" ")}`;
      return { name, outcome: "wrong", detail };
    }
    return { name, outcome: said.length > 0 ? "repaired" : "served", detail: said.join(" ") };
  } finally {
    await server.kill();
  }
}

/** One that ends for another reason than the data is as wrong as one that serves it. */
async function refusal(name: string, server: ServerProcess): Promise<Verdict> {
  const { code, signal, stderr } = await server.exited;
  const detail = stderr
    .split("\n")
    .filter((line) => !line.includes("warning"))
    .join(" ")
    .trim();
  const isOrderly = code === 4 && !/^\s+at /m.test(stderr);
  return isOrderly
    ? { name, outcome: "refused", detail }
    : { name, outcome: "wrong", detail: `ended with ${signal ?? code}: ${detail}` };
}

/** What is not as it was written. */
export async function readEverything(api: ApiClient, subject: Prepared): Promise<string[]> {
  const problems: string[] = [];
  const { pending, results } = subject;
  for (const [id, payload] of pending) {
    const reply = await api.get(`/tasks/${id}`);
    if (isRefused(reply.text)) continue;
    const found = reply.status === 200 ? (JSON.parse(reply.text) as TaskJson).payload : undefined;
    if (found !== payload)
      problems.push(`task ${id} is ${reply.status} ${reply.text.slice(0, 200)}`);
  }
  for (const [id, result] of results) {
    const reply = await api.get(`/tasks/${id}/result`);
    if (isRefused(reply.text)) continue;
    const found = reply.status === 200 && JSON.parse(reply.text).result?.result;
    if (JSON.stringify(found) !== result) {
      problems.push(`result ${id} is ${reply.status} ${reply.text.slice(0, 200)}`);
    }
  }
  const claimed = new Set<string>();
  for (;;) {
    const reply = await api.post("/tasks/claim", { commands: ["keep"], leaseSeconds: 600 });
    if (reply.status !== 200) break;
    const { id, payload } = JSON.parse(reply.text) as TaskJson;
    if (claimed.has(id)) problems.push(`task ${id} was claimed twice`);
    if (pending.get(id) !== payload) problems.push(`task ${id} was claimed with ${payload}`);
    claimed.add(id);
  }
  for (const id of pending.keys()) {
    if (claimed.has(id)) continue;
    const reply = await api.get(`/tasks/${id}`);
    if (!isRefused(reply.text)) problems.push(`task ${id} cannot be claimed`);
  }
  api.close();
  return problems;
}

function isRefused(text: string): boolean {
  return text.includes(errors.data_damaged.text);
}
