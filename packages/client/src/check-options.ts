import { CodeqError } from "./codeq-error.ts";

/** The names of all options of a type; the compiler misses none. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>;

/** Refuses an option that does not exist: JavaScript has no compiler that finds a misspelt one. */
export function checkOptions<Options extends object>(
  given: Options,
  known: OptionNames<Options>,
  of: string,
): void {
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(known, name)) continue;
    const text = `unknown option ${name}${of}; the options are ${Object.keys(known).join(", ")}`;
    throw new CodeqError("invalid_option", text);
  }
}
