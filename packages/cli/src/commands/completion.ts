/** `completion`: the script that teaches a shell the commands and options. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import type { CommandRow } from "../command.ts";
import { bashCompletion } from "../completion/bash.ts";
import { fishCompletion } from "../completion/fish.ts";
import { zshCompletion } from "../completion/zsh.ts";
import { exitCodes } from "../exit-codes.ts";

type Write = (rows: readonly CommandRow[]) => string;

const shells: ReadonlyMap<string, Write> = new Map([
  ["bash", bashCompletion],
  ["zsh", zshCompletion],
  ["fish", fishCompletion],
]);

export async function run(call: Call): Promise<number> {
  const shell = call.word(0);
  const write = shells.get(shell);
  if (write === undefined) {
    const names = [...shells.keys()].join(", ");
    throw usageError(`there is no completion for ${JSON.stringify(shell)}; choose one of ${names}`);
  }
  const script = write(call.commands);
  if (call.json) call.printJson({ shell, script });
  else call.host.output.write(script);
  return exitCodes.ok.code;
}
