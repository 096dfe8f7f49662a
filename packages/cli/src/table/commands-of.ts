/** The rows of commands whose functions are in one module. */
import type { CommandRow } from "../command.ts";

type Row = Omit<CommandRow, "name" | "group" | "run">;
type Camel<Text> = Text extends `${infer One}-${infer Two}` ? `${One}${Capitalize<Two>}` : Text;
/** The last word of the command: `list` for `topics list`, `runNow` for `run-now`. */
type FunctionOf<Name> = Camel<Name extends `${string} ${infer Verb}` ? Verb : Name>;

/**
 * `load` imports the module, which has a function for each command; it is called when one of them is run. Commands
 * that take no flags of a server talk to one.
 */
export function commandsOf<Name extends string>(
  common: Pick<CommandRow, "group" | "details" | "serverFlags">,
  load: () => Promise<Readonly<Record<NoInfer<FunctionOf<Name>>, CommandRow["run"]>>>,
  rows: Readonly<Record<Name, Row>>,
): readonly CommandRow[] {
  return (Object.keys(rows) as Name[]).map((name) => {
    const row = { ...common, ...rows[name] };
    const verb = name.replace(/^.* /, "").replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    return {
      ...(row.serverFlags === undefined ? { connects: true } : {}),
      ...row,
      name,
      run: async (call) => (await load())[verb as FunctionOf<Name>](call),
    };
  });
}
