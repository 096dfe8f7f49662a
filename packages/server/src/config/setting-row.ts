/** A row of the table of settings, and the types that many rows share. */
import { type Parser, wholeNumber } from "./parsers.ts";

export interface SettingRow<T> {
  /** Variables of the Go server, beside `CODEQ_<NAME>` which every setting has and which wins. */
  readonly env?: readonly string[];
  readonly parser: Parser<T>;
  readonly initial: T;
  /** What the manual page shows instead of the default, where that depends on something. */
  readonly initialInWords?: string;
  readonly unit?: "seconds" | "milliseconds" | "bytes";
  /** The value is never printed: not in messages, not in listings. */
  readonly secret?: true;
  /** One sentence: what the setting decides. */
  readonly about: string;
}

export const seconds = (min: number, max: number, initial: number) =>
  ({ parser: wholeNumber(min, max, initial), initial, unit: "seconds" }) as const;
export const bytes = (min: number, max: number, initial: number) =>
  ({ parser: wholeNumber(min, max, initial), initial, unit: "bytes" }) as const;
export const count = (min: number, max: number, initial: number) =>
  ({ parser: wholeNumber(min, max, initial), initial }) as const;
