/** `cluster install-log`: builds etcd with Go, from the module that comes with the server. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { etcdModule, etcdVersion, installedEtcd } from "@codeq/server/command-line";
import type { Call } from "../../call.ts";
import { CliError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";

export async function run(call: Call): Promise<number> {
  const path = installedEtcd();
  if (!existsSync(etcdModule)) throw failed("the executable has no sources; its archive has etcd");
  mkdirSync(dirname(path), { recursive: true });
  call.note("Go builds etcd; the first time takes a minute");
  const { status, stderr, error } = spawnSync("go", ["build", "-o", path, "."], {
    cwd: etcdModule,
    env: { ...call.host.env, CGO_ENABLED: "0" },
    encoding: "utf8",
  });
  const version = status === 0 ? etcdVersion(path) : undefined;
  if (version === undefined) throw failed(error?.message ?? lastLines(stderr));
  if (call.json) call.printJson({ path, version });
  else call.print(`etcd ${version} is in ${path}; nodes of a cluster find it there`);
  return exitCodes.ok.code;
}

function failed(why: string): CliError {
  const advice = "install Go 1.26 or newer, or install etcd 3.6 and set etcdProgram";
  return new CliError(`etcd could not be built: ${why}`, { exit: "failed", next: advice });
}

function lastLines(text: string): string {
  return text.trim().split("\n").slice(-3).join(" ");
}
