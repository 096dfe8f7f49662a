/** Names and comparisons in the steps of scenarios. */

export type Names = Map<string, unknown>;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The same value with names, texts and repeated items filled in. */
export function named(value: unknown, names: Names): unknown {
  if (typeof value === "string") return textOf(value, names);
  if (Array.isArray(value)) return value.flatMap((each) => items(each, names));
  if (!isObject(value)) return value;
  const { $text: chars } = value;
  if (typeof chars === "number") return "0123456789".repeat(Math.ceil(chars / 10)).slice(0, chars);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, named(each, names)]));
}

function items(value: unknown, names: Names): unknown[] {
  if (!isObject(value) || typeof value["repeat"] !== "number") return [named(value, names)];
  return Array.from({ length: value["repeat"] }, (_, n) =>
    named(value["item"], new Map([...names, ["n", n]])),
  );
}

function textOf(text: string, names: Names): unknown {
  const [, name = "", path = "", rest = ""] = /^\$([a-z]+)((?:\.\w+)*)(.*)$/s.exec(text) ?? [];
  if (!names.has(name)) return text;
  const found = path
    .split(".")
    .slice(1)
    .reduce<unknown>(
      (from, key) => (from as Readonly<Record<string, unknown>>)?.[key],
      names.get(name),
    );
  if (found === undefined) throw new Error(`there is no ${text}`);
  return rest === "" ? found : `${String(found)}${rest}`;
}

/** Whether the value has everything that is expected of it. */
export function fits(value: unknown, expected: unknown): boolean {
  if (Array.isArray(expected)) {
    return (
      Array.isArray(value) &&
      value.length === expected.length &&
      expected.every((each, index) => fits(value[index], each))
    );
  }
  if (!isObject(expected)) return Object.is(value, expected);
  const { $matches: pattern, $above: least, $absent: isAbsent, $moment: ms } = expected;
  if (typeof pattern === "string")
    return typeof value === "string" && new RegExp(pattern).test(value);
  if (typeof least === "number") return typeof value === "number" && value > least;
  if (typeof ms === "number") return typeof value === "string" && Date.parse(value) === ms;
  if (isAbsent === true) return value === undefined;
  return isObject(value) && Object.entries(expected).every(([key, each]) => fits(value[key], each));
}
