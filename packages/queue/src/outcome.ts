/** A rule returns a value, or the code of a refusal. Refusals are expected and never thrown. */
export type Outcome<T, Code extends string> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly code: Code };

export function accept<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

export function refuse<Code extends string>(
  code: Code,
): { readonly ok: false; readonly code: Code } {
  return { ok: false, code };
}
