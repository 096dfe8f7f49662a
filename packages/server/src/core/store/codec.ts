/**
 * How values become bytes: a codec writes a value, reads it, and says how many bytes the value takes at most.
 * A struct is one declaration for both directions: its fields, in the order of the bytes. The code of a struct is
 * generated once, because a loop over the fields takes one and a half times as long.
 */
import {
  ByteReader,
  DamagedBytes,
  numberBytesMax,
  textExtraBytes,
  unitBytesMax,
  writeNumber,
  writeText,
} from "./bytes.ts";

export interface Codec<Value> {
  /** At least as many bytes as `write` takes. */
  readonly bytesMax: (value: Value) => number;
  /** Returns where the value ends. */
  readonly write: (buffer: Buffer, at: number, value: Value) => number;
  readonly read: (from: ByteReader) => Value;
}

/** The fields of a value; a text may be the codec of every kind of text. */
type Fields<Value> = {
  readonly [Name in keyof Value]-?:
    | Codec<Value[Name]>
    | (Value[Name] extends string ? Codec<string> : never);
};

export const text: Codec<string> = {
  bytesMax: (value) => textExtraBytes + value.length * unitBytesMax,
  write: writeText,
  read: (from) => from.text(),
};

/** A whole number that is not negative. */
export const number: Codec<number> = {
  bytesMax: () => numberBytesMax,
  write: writeNumber,
  read: (from) => from.number(),
};

/** Any number. */
export const double: Codec<number> = {
  bytesMax: () => 8,
  write: (buffer, at, value) => buffer.writeDoubleLE(value, at),
  read: (from) => from.double(),
};

export const flag: Codec<boolean> = oneOf([false, true]);

/** No bytes. */
export const nothing: Codec<undefined> = {
  bytesMax: () => 0,
  write: (_, at) => at,
  read: () => undefined,
};

/** One of some values, by its position: only add at the end. */
export function oneOf<Value>(values: readonly Value[]): Codec<Value> {
  return {
    bytesMax: () => 1,
    write: (buffer, at, value) => {
      buffer[at] = values.indexOf(value);
      return at + 1;
    },
    read: (from) => {
      const position = from.byte();
      if (position < values.length) return values[position] as Value;
      throw new DamagedBytes(`${position} is none of ${values.join(", ")}`);
    },
  };
}

export function optional<Value>({ bytesMax, write, read }: Codec<Value>): Codec<Value | undefined> {
  return {
    bytesMax: (value) => (value === undefined ? 1 : 1 + bytesMax(value)),
    write: (buffer, at, value) => {
      buffer[at] = value === undefined ? 0 : 1;
      return value === undefined ? at + 1 : write(buffer, at + 1, value);
    },
    read: (from) => (flag.read(from) ? read(from) : undefined),
  };
}

export function list<Value>({ bytesMax, write, read }: Codec<Value>): Codec<readonly Value[]> {
  return {
    bytesMax: (values) => values.reduce((sum, each) => sum + bytesMax(each), numberBytesMax),
    write: (buffer, at, values) => {
      let end = writeNumber(buffer, at, values.length);
      for (const each of values) end = write(buffer, end, each);
      return end;
    },
    read: (from) => {
      const values: Value[] = [];
      for (let left = from.number(); left > 0; left--) values.push(read(from));
      return values;
    },
  };
}

/** A value of JSON as text; undefined travels as null. */
export function json<Value>(): Codec<Value> {
  // Made for `bytesMax` and kept for `write`, which follows.
  let made = { value: undefined as unknown, text: "null" };
  const textOf = (value: Value): string =>
    made.value === value ? made.text : JSON.stringify(value ?? null);
  return {
    bytesMax: (value) => {
      made = { value, text: JSON.stringify(value ?? null) };
      return text.bytesMax(made.text);
    },
    write: (buffer, at, value) => {
      const end = writeText(buffer, at, textOf(value));
      // The value may be another one when it is written again.
      made = { value: undefined, text: "null" };
      return end;
    },
    read: (from) => {
      try {
        return JSON.parse(from.text()) ?? undefined;
      } catch {
        throw new DamagedBytes("no JSON");
      }
    },
  };
}

/** A value that travels as another one. */
export function mapped<Value, Other>(
  { bytesMax, write, read }: Codec<Other>,
  to: (value: Value) => Other,
  back: (other: Other) => Value,
): Codec<Value> {
  return {
    bytesMax: (value) => bytesMax(to(value)),
    write: (buffer, at, value) => write(buffer, at, to(value)),
    read: (from) => back(read(from)),
  };
}

export function struct<Value>(fields: Fields<Value>): Codec<Value> {
  const each = fieldsOf(fields);
  return compile<Codec<Value>>(fields, {
    bytesMax: `(value) => ${each(({ name, codec }) => `${codec}.bytesMax(value.${name})`, " + ")}`,
    write: `(buffer, at, value) => {
      ${each(({ name, codec }) => `at = ${codec}.write(buffer, at, value.${name});`)}
      return at;
    }`,
    read: `(from) => ({ ${each(({ name, codec }) => `${name}: ${codec}.read(from)`, ", ")} })`,
  });
}

/** Differences between rows: bits that say which columns differ, and the values of these columns. */
export interface Columns<Row extends { readonly id: string }> {
  readonly count: number;
  /** At least as many bytes as the values of all columns take. */
  readonly bytesMax: (row: Row) => number;
  readonly changed: (row: Row, before: Row) => number;
  readonly write: (buffer: Buffer, at: number, row: Row, which: number) => number;
  /** The row with this id: the row before with the columns that were written. */
  readonly read: (from: ByteReader, id: Row["id"], which: number, before: Row) => Row;
}

/** At most 31 columns. The rows that are read have their fields in the order of `blank`. */
export function columns<Row extends { readonly id: string }>(
  fields: Fields<Omit<Row, "id">>,
  blank: Row,
): Columns<Row> {
  const each = fieldsOf(fields);
  return compile<Columns<Row>>(fields, {
    count: `${Object.keys(fields).length}`,
    bytesMax: `(row) => ${each(({ name, codec }) => `${codec}.bytesMax(row.${name})`, " + ")}`,
    changed: `(row, before) =>
      ${each(({ name, bit }) => `(row.${name} === before.${name} ? 0 : ${bit})`, " | ")}`,
    write: `(buffer, at, row, which) => {
      ${each(({ name, codec, bit }) => `if (which & ${bit}) at = ${codec}.write(buffer, at, row.${name});`)}
      return at;
    }`,
    read: `(from, id, which, before) => {
      ${each(({ name, codec, bit }) => `const ${name} = which & ${bit} ? ${codec}.read(from) : before.${name};`)}
      return { ${Object.keys(blank).join(", ")} };
    }`,
  });
}

interface Field {
  readonly name: string;
  /** The name of its codec in the generated code. */
  readonly codec: string;
  readonly bit: number;
}

/** Code for each of the fields. */
function fieldsOf(fields: object): (code: (field: Field) => string, between?: string) => string {
  const all = Object.keys(fields).map((name, at) => ({ name, codec: `c${at}`, bit: 1 << at }));
  return (code, between = "\n") => all.map(code).join(between);
}

function compile<Compiled>(fields: object, code: Record<keyof Compiled, string>): Compiled {
  const codecs = Object.values(fields);
  const parts = Object.entries(code).map(([name, body]) => `${name}: ${body}`);
  const make = new Function(...codecs.map((_, at) => `c${at}`), `return { ${parts.join(",\n")} };`);
  return make(...codecs);
}

export function encode<Value>(
  { bytesMax, write }: Codec<Value>,
  value: Value,
): Buffer<ArrayBuffer> {
  const buffer = Buffer.allocUnsafeSlow(bytesMax(value));
  return buffer.subarray(0, write(buffer, 0, value));
}

/** Throws DamagedBytes when the bytes are not exactly one value. */
export function decode<Value>({ read }: Codec<Value>, bytes: Uint8Array): Value {
  const from = ByteReader.of(bytes);
  const value = read(from);
  if (!from.isAtEnd) throw new DamagedBytes("there is more than one value");
  return value;
}
