/** `doctor`: checks the requirements of a server on this machine, and the server that commands talk to. */
import type { Call } from "../../call.ts";
import { CliError } from "../../cli-error.ts";
import {
  checkDataDirectory,
  checkShards,
  checkStoreFiles,
} from "../../doctor/check-data-directory.ts";
import {
  checkBudget,
  checkClock,
  checkDurability,
  checkMemory,
  checkOpenFiles,
  checkSync,
  checkVersions,
} from "../../doctor/check-machine.ts";
import { checkPorts, checkServer } from "../../doctor/check-server.ts";
import { type Finding, fail, ok, type Patient, type Verdict } from "../../doctor/finding.ts";
import { exitCodes } from "../../exit-codes.ts";
import { serverConfig } from "../../local/data-directory.ts";
import { counted } from "../../terminal/units.ts";

export async function run(call: Call): Promise<number> {
  const findings: Finding[] = [];
  const print = (...found: readonly Finding[]): void => {
    findings.push(...found);
    if (!call.json) for (const finding of found) show(call, finding);
  };
  print(checkVersions());
  const patient = await examine(call, print);
  if (patient !== undefined) {
    print(...checkDataDirectory(patient), ...checkShards(patient));
    print(...(await checkStoreFiles(patient)));
    print(checkSync(patient), checkDurability(patient));
    print(
      await checkOpenFiles(patient),
      checkMemory(),
      await checkBudget(patient),
      checkClock(patient),
    );
    print(...(await checkPorts(patient)));
    print(...(await checkServer(patient)));
  }
  const numberOf = (verdict: Verdict): number =>
    findings.filter((finding) => finding.verdict === verdict).length;
  const failed = numberOf("fail");
  if (call.json) {
    call.printJson({ checks: findings, ok: numberOf("ok"), warn: numberOf("warn"), fail: failed });
    return failed === 0 ? exitCodes.ok.code : exitCodes.taskFailed.code;
  }
  call.print("");
  const warnings = counted(numberOf("warn"), "warning");
  call.print(`${numberOf("ok")} ok, ${warnings}, ${failed} failed`);
  if (failed === 0) return exitCodes.ok.code;
  throw new CliError(`${failed} check(s) failed`, { exit: "taskFailed", next: "see above" });
}

async function examine(
  call: Call,
  print: (finding: Finding) => void,
): Promise<Patient | undefined> {
  try {
    const { config, warnings } = await serverConfig(call);
    print(ok("configuration", warnings.length === 0 ? "valid" : `valid; ${warnings.join("; ")}`));
    return { call, config };
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    print(fail("configuration", error.message, error.next ?? ""));
    return undefined;
  }
}

function show({ style, host }: Call, { check, verdict, found, advice }: Finding): void {
  const paint = { ok: style.green, warn: style.yellow, fail: style.red }[verdict];
  host.output.write(`${paint(verdict.padEnd(4))}  ${check.padEnd(14)}  ${found}\n`);
  if (advice !== undefined) host.output.write(`      ${" ".repeat(14)}  ${style.dim(advice)}\n`);
}
