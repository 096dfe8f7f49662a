/**
 * Log lines, one per call, to a writer that is passed in. A call never throws. Fields
 * whose name says that they are a credential are replaced before anything is written, at any depth; text
 * inside a message is not examined.
 */
import type { Clock } from "../core/clock.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every line. */
  child(fields: LogFields): Logger;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: "json" | "text";
  /** Gets whole lines, newline included. */
  readonly write: (line: string) => void;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

export function createLogger(options: LoggerOptions): Logger {
  return bind(options, {});
}

const order: readonly LogLevel[] = ["debug", "info", "warn", "error"];
const depthMax = 5;
const itemsMax = 50;
const charsMax = 8192;

const credential = /(token|secret|authorization|password)$/i;
/** Fencing tokens are sequence numbers that grow with every claim, not credentials. */
const notCredential = /^lease_?token$/i;

function bind(options: LoggerOptions, bound: LogFields): Logger {
  const least = order.indexOf(options.level);
  const at = (level: LogLevel) => {
    if (order.indexOf(level) < least) return () => {};
    return (message: string, fields?: LogFields) => write(options, level, message, bound, fields);
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => bind(options, { ...bound, ...copy(fields) }),
  };
}

/** A spread runs getters, and a getter may throw. */
function copy(fields: LogFields): LogFields {
  try {
    return { ...fields };
  } catch {
    // The child logger still works; its lines lack fields that could not be read.
    return { unreadableFields: true };
  }
}

function write(
  options: LoggerOptions,
  level: LogLevel,
  message: string,
  bound: LogFields,
  fields: LogFields | undefined,
): void {
  let line: string;
  try {
    line = render(options, level, message, { ...bound, ...fields });
  } catch {
    // A field could not be read or the clock is broken; the message itself is still worth a line.
    line = `${JSON.stringify({ level, msg: String(message), unreadableFields: true })}\n`;
  }
  try {
    options.write(line);
  } catch {
    // The log cannot be written, so there is no place to report it; the server continues.
  }
}

function render(
  options: LoggerOptions,
  level: LogLevel,
  message: string,
  fields: LogFields,
): string {
  const time = new Date(options.nowMs()).toISOString();
  const safe = safeFields(fields, 0);
  if (options.format === "json") {
    const line: Record<string, unknown> = { time, level, msg: message };
    for (const [name, value] of Object.entries(safe))
      line[name in line ? `_${name}` : name] = value;
    return `${JSON.stringify(line)}\n`;
  }
  const pairs = Object.entries(safe).map(([name, value]) => ` ${plain(name)}=${plain(value)}`);
  return `${time} ${level.toUpperCase().padEnd(5)} ${oneLine(message)}${pairs.join("")}\n`;
}

/** Text without quotes where that is unambiguous; everything else as JSON, which has no line breaks. */
function plain(value: unknown): string {
  if (typeof value === "string" && /^[\w./:@+-]+$/.test(value)) return value;
  return JSON.stringify(value) ?? "undefined";
}

function oneLine(message: string): string {
  return /\p{Cc}/u.test(message) ? JSON.stringify(message) : message;
}

function safeFields(fields: object, depth: number): Record<string, unknown> {
  const safe: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields).slice(0, itemsMax)) {
    const hidden = credential.test(name) && !notCredential.test(name);
    if (value !== undefined) safe[name] = hidden ? "[redacted]" : safeValue(value, depth);
  }
  return safe;
}

/** A copy that JSON can hold: limited in depth and length, without credentials or cycles. */
function safeValue(value: unknown, depth: number): unknown {
  if (typeof value === "string") {
    return value.length > charsMax ? `${value.slice(0, charsMax)}...` : value;
  }
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "boolean" || value === null) return value;
  if (typeof value !== "object") return String(value);
  if (depth >= depthMax) return "[too deep]";
  if (value instanceof Error) return safeError(value, depth);
  if (value instanceof Date) return value.toISOString();
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Map) return safeFields(Object.fromEntries(value), depth + 1);
  if (Symbol.iterator in value) {
    const items = [...(value as Iterable<unknown>)].slice(0, itemsMax);
    return items.map((item) => safeValue(item, depth + 1));
  }
  return safeFields(value, depth + 1);
}

function safeError(error: Error, depth: number): Record<string, unknown> {
  const { name, message, stack, cause } = error;
  const safe: Record<string, unknown> = { name, message: safeValue(message, depth + 1) };
  // Own fields such as `code` say what went wrong; the others are not enumerable.
  Object.assign(safe, safeFields(error, depth + 1));
  if (stack !== undefined) safe["stack"] = safeValue(stack, depth + 1);
  if (cause !== undefined) safe["cause"] = safeValue(cause, depth + 1);
  return safe;
}

const warnEveryMs = 10_000;

/**
 * Warnings that can come in any number. The same message is written only at intervals, with the number of
 * messages left out since the last one.
 */
export class SpacedWarnings {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #written: Map<string, { atMs: number; leftOut: number }> = new Map();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Use few different messages; details that differ between warnings belong in the fields. */
  warn(message: string, fields: LogFields): void {
    const nowMs = this.#clock.monotonicMs();
    const last = this.#written.get(message);
    if (last !== undefined && nowMs - last.atMs < warnEveryMs) {
      last.leftOut += 1;
      return;
    }
    const leftOut = last?.leftOut ?? 0;
    this.#logger.warn(message, leftOut === 0 ? fields : { ...fields, leftOut });
    this.#written.set(message, { atMs: nowMs, leftOut: 0 });
  }
}
