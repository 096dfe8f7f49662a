/** Options of a benchmark as values, or a UsageError that says what is wrong with which. */
import { parseArgs } from "node:util";

export class UsageError extends Error {}

export interface Option<Value> {
  readonly text: string;
  readonly read: (name: string, text: string) => Value;
}

type Values<Options extends Record<string, Option<unknown>>> = {
  readonly [Name in keyof Options]: Options[Name] extends Option<infer Value> ? Value : never;
};

/** Every option has a text that stands for it when it is not given. */
export function readOptions<Options extends Record<string, Option<unknown>>>(
  args: readonly string[],
  options: Options,
): Values<Options> {
  const texts = parsedTexts(args, options);
  const values = Object.entries(options).map(([name, option]) => [
    name,
    option.read(`--${name}`, texts[name] ?? option.text),
  ]);
  return Object.fromEntries(values) as Values<Options>;
}

function parsedTexts(
  args: readonly string[],
  options: Readonly<Record<string, unknown>>,
): Readonly<Record<string, string | undefined>> {
  const shapes = Object.keys(options).map((name) => [name, { type: "string" as const }]);
  try {
    return parseArgs({ args: [...args], options: Object.fromEntries(shapes) }).values as Record<
      string,
      string | undefined
    >;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

export function wholeNumber(text: string, min = 1): Option<number> {
  return { text, read: (name, given) => toNumber(name, given, min) };
}

/** A time, which may be a part of a second. */
export function duration(text: string, min = 0.1): Option<number> {
  const read = (name: string, given: string): number => {
    const value = Number(given);
    if (given.trim() !== "" && Number.isFinite(value) && value >= min) return value;
    throw new UsageError(`${name} is ${given}; it takes seconds, at least ${min}`);
  };
  return { text, read };
}

/** Several, separated by commas. */
export function wholeNumbers(text: string, min = 1): Option<number[]> {
  return { text, read: (name, given) => given.split(",").map((part) => toNumber(name, part, min)) };
}

export function choice<Choice extends string>(
  allowed: readonly Choice[],
  text: string,
): Option<Choice> {
  const read = (name: string, given: string): Choice => {
    const found = allowed.find((candidate) => candidate === given);
    if (found !== undefined) return found;
    throw new UsageError(`${name} is ${given}; it takes ${allowed.join(", ")}`);
  };
  return { text, read };
}

/** Several, separated by commas. */
export function choices<Choice extends string>(
  allowed: readonly Choice[],
  text: string,
): Option<Choice[]> {
  const { read } = choice(allowed, text);
  return { text, read: (name, given) => given.split(",").map((part) => read(name, part)) };
}

function toNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isSafeInteger(value) && value >= min) return value;
  throw new UsageError(`${name} is ${text}; it takes a whole number from ${min} on`);
}

/** Tasks in a message of producers, and that a worker asks for at once. */
export interface BatchSizes {
  readonly batch: number;
  readonly batchOut: number;
}

/** Several, separated by commas: one number for both directions, or two with a colon between. */
export function batchSizes(text: string): Option<BatchSizes[]> {
  const one = (name: string, given: string): BatchSizes => {
    const [into = "", out = into, ...rest] = given.split(":");
    if (rest.length > 0) {
      throw new UsageError(`${name} is ${given}; it takes a size, or two with a colon between`);
    }
    return { batch: toNumber(name, into, 1), batchOut: toNumber(name, out, 1) };
  };
  return { text, read: (name, given) => given.split(",").map((part) => one(name, part)) };
}
