/** `help`: for all commands, for those that begin with a word, or for one. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { helpFor } from "../help.ts";

export async function run(call: Call): Promise<number> {
  const name = call.words.join(" ");
  const row = call.commands.find((each) => each.name === name);
  const isFamily = call.commands.some((each) => each.name.startsWith(`${name} `));
  if (name !== "" && row === undefined && !isFamily) {
    throw usageError(`there is no command ${JSON.stringify(name)}`, "codeq help");
  }
  if (call.json) {
    const rows = call.commands.filter(
      (each) => name === "" || each === row || each.name.startsWith(`${name} `),
    );
    call.printJson({ commands: rows.map(({ run: _, ...fields }) => fields) });
  } else {
    call.host.output.write(helpFor(name === "" ? undefined : (row ?? name), call.commands));
  }
  return exitCodes.ok.code;
}
