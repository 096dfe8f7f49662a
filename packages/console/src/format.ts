/** Numbers, durations and times as people read them. Units are spelled as in "26 m 14 s" and "88/s". */

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function plural(value: number, one: string, many: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(value: number): string {
  if (value === 0) return "0";
  if (value >= 10) return count(value);
  return value >= 0.05 ? value.toFixed(1) : "<0.1";
}

export function share(part: number): string {
  const percent = part * 100;
  if (percent === 0) return "0%";
  if (percent < 0.1) return "<0.1%";
  return `${percent < 99.95 ? percent.toFixed(1) : "100"}%`;
}

export function bytes(value: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let left = value;
  let unit = 0;
  while (left >= 1000 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

/** Two units at most: "1.8 s", "26 m 14 s", "3 h 12 m", "9 d". */
export function duration(ms: number): string {
  const value = Math.max(0, ms);
  if (value < second) return `${Math.round(value)} ms`;
  if (value < 10 * second) return `${(value / second).toFixed(1)} s`;
  if (value < minute) return `${Math.round(value / second)} s`;
  if (value < hour) return two(value, minute, "m", second, "s");
  if (value < day) return two(value, hour, "h", minute, "m");
  return two(value, day, "d", hour, "h");
}

function two(ms: number, large: number, one: string, small: number, other: string): string {
  const whole = Math.floor(ms / large);
  const rest = Math.floor((ms % large) / small);
  return rest === 0 ? `${whole} ${one}` : `${whole} ${one} ${rest} ${other}`;
}

export const timeModes = ["relative", "local", "utc"] as const;
export type TimeMode = (typeof timeModes)[number];

export function time(ms: number, mode: TimeMode, nowMs: number): string {
  if (mode === "relative") return ago(ms, nowMs);
  return mode === "utc" ? utc(ms) : local(ms);
}

export function ago(ms: number, nowMs: number): string {
  const past = nowMs - ms;
  if (Math.abs(past) < second) return "now";
  return past > 0 ? `${duration(past)} ago` : `in ${duration(-past)}`;
}

/** What a tooltip says: all three. */
export function everyTime(ms: number, nowMs: number): string {
  return `${ago(ms, nowMs)}\n${local(ms)} local\n${utc(ms)}`;
}

function utc(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function local(ms: number): string {
  const at = new Date(ms);
  const pad = (value: number): string => String(value).padStart(2, "0");
  const date = [at.getFullYear(), pad(at.getMonth() + 1), pad(at.getDate())].join("-");
  return `${date} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":")}`;
}

/** Replaces control characters, and marks that are invisible or reverse the text, by visible symbols. */
export function visible(text: string): string {
  return text.replace(unseen, (letter) => {
    const code = letter.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f
      ? "\u2421"
      : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

const unseen =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** The end of an id: ids that were created close together start with the same characters. */
export function shortId(id: string): string {
  return id.length <= 12 ? id : id.slice(-12);
}

/** The server names a worker `~<name, escaped>@<subject>`, or by its subject alone. */
export function workerName(id: string): string {
  const [, name = "", subject = ""] = /^~([^@]*)@(.*)$/s.exec(id) ?? [];
  if (subject === "") return id;
  if (name === "") return subject;
  try {
    return `${decodeURIComponent(name)} (${subject})`;
  } catch {
    // Written by hand, not by the server: shown as it is.
    return id;
  }
}
