/** `salvage`: prints what can still be read of a damaged data directory, one line of JSON for each task. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { SalvagedTask } from "@codeq/server/data-dir";
import type { Call } from "../../call.ts";
import { CliError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";
import { dataDirectoryOf, serverConfig } from "../../local/data-directory.ts";
import { counted } from "../../terminal/units.ts";

export async function run(call: Call): Promise<number> {
  const { salvageTasks } = await import("@codeq/server/data-dir");
  const { config } = await serverConfig(call);
  const directory = dataDirectoryOf(call, config);
  if (!existsSync(directory)) {
    throw new CliError(`there is no directory ${directory}`, {
      exit: "data",
      next: "set the data directory with --data-dir; codeq dev uses .codeq/data",
    });
  }
  let damages = 0;
  let tasks = 0;
  const report = (what: string): void => {
    damages += 1;
    call.host.errors.write(`${what}\n`);
  };
  for (const each of storesIn(directory)) {
    for (const salvaged of await salvageTasks(each, report)) {
      tasks += 1;
      call.print(lineOf(salvaged));
    }
  }
  const found = `${counted(tasks, "task")} can be read, ${counted(damages, "damage")} found`;
  call.host.errors.write(`${found}\n`);
  return damages === 0 ? exitCodes.ok.code : exitCodes.data.code;
}

/** The directory itself, and those of its shards. */
function storesIn(directory: string): string[] {
  const shards = readdirSync(directory).filter((name) => /^shard-\d+$/.test(name));
  return shards.length === 0 ? [directory] : shards.map((name) => join(directory, name));
}

function lineOf({ task, payload, result, isUncertain }: SalvagedTask): string {
  const { id, tenantId, command, priority, attempts, maxAttempts, idempotencyKey } = task;
  const fields = JSON.stringify({
    id,
    tenantId,
    command,
    place: task.place.in,
    priority,
    attempts,
    maxAttempts,
    createdAt: new Date(task.createdMs).toISOString(),
    idempotencyKey: idempotencyKey || undefined,
    webhook: task.webhook || undefined,
    error: task.error || undefined,
    artifacts: result?.artifacts.length ? result.artifacts : undefined,
    isUncertain: isUncertain || undefined,
    isPayloadMissing: payload === undefined || undefined,
  });
  const texts = [
    payload === undefined ? "" : `,"payload":${onOneLine(payload)}`,
    result === undefined || result.json === "" ? "" : `,"result":${onOneLine(result.json)}`,
  ];
  return `${fields.slice(0, -1)}${texts.join("")}}`;
}

/** In JSON a line can only break between values, where a space means the same. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]/g, " ");
}
