/** The rows of the commands on one resource of the API: `topics list`, `topics get` and so on. */
import type { CommandRow } from "../command.ts";

/** `load` imports the module that has a function for each verb; it is called when one of them is run. */
export function commandsOn<Verb extends string>(
  resource: string,
  common: Pick<CommandRow, "group" | "details">,
  load: () => Promise<Readonly<Record<NoInfer<Verb>, CommandRow["run"]>>>,
  verbs: Readonly<Record<Verb, Omit<CommandRow, "name" | "group" | "run">>>,
): readonly CommandRow[] {
  return (Object.keys(verbs) as Verb[]).map((verb) => ({
    ...common,
    connects: true,
    ...verbs[verb],
    name: `${resource} ${verb}`,
    run: async (call) => (await load())[verb](call),
  }));
}
