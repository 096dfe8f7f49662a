/**
 * What validators of many makes have in common (Standard Schema, version 1), declared here so that
 * none of them has to be installed, and how a value is checked with one.
 */
import { CodeqError } from "../codeq-error.ts";

/** A validator of any make that follows [Standard Schema](https://standardschema.dev), version 1. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One thing that a schema does not accept. */
export interface SchemaIssue {
  /** What is wrong, in the words of the validator. */
  readonly message: string;
  /** Where it is; empty or missing for the value as a whole. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a schema accepts. */
export type SchemaInput<Schema extends StandardSchema> = NonNullable<
  Schema["~standard"]["types"]
>["input"];

/** What a schema makes of it. */
export type SchemaOutput<Schema extends StandardSchema> = NonNullable<
  Schema["~standard"]["types"]
>["output"];

const issuesShown = 5;

/** The schema of a task refuses its input or its output. */
export class ValidationError extends CodeqError {
  override readonly name: string = "ValidationError";
  /** Everything that the schema found. */
  readonly issues: readonly SchemaIssue[];

  constructor(
    code: "invalid_input" | "invalid_output",
    message: string,
    issues: readonly SchemaIssue[],
  ) {
    super(code, message);
    this.issues = issues;
  }
}

/** The value as the schema gives it back; throws a ValidationError. */
export async function validate(
  schema: StandardSchema,
  value: unknown,
  what: { readonly code: "invalid_input" | "invalid_output"; readonly of: string },
): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const shown = result.issues.slice(0, issuesShown).map(inWords).join("; ");
  const more = result.issues.length > issuesShown ? "; ..." : "";
  throw new ValidationError(what.code, `${what.of} is not valid: ${shown}${more}`, result.issues);
}

function inWords({ message, path = [] }: SchemaIssue): string {
  const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
  return keys.length === 0 ? message : `${keys.join(".")}: ${message}`;
}
