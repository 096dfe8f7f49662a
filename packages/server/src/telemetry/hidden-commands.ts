/** Metrics for callers that may not see the names of commands: all commands are merged into one series. */
const series = /^(\w+\{)(.*?)command="((?:[^"\\]|\\.)*)"(.*\}) (\S+)$/;
const together = "_all";

/** `largest` names the metrics of which the greatest value counts instead of the sum. */
export function hideCommands(text: string, largest: ReadonlySet<string>): string {
  const totals = new Map<string, number>();
  const lines: (string | { readonly total: string })[] = [];
  for (const line of text.split("\n")) {
    const [, start = "", before = "", , after = "", value = ""] = series.exec(line) ?? [];
    if (start === "") {
      lines.push(line);
      continue;
    }
    const name = `${start}${before}command="${together}"${after}`;
    const known = totals.get(name);
    if (known === undefined) lines.push({ total: name });
    const isLargest = largest.has(start.slice(0, -1));
    const more = Number(value);
    const sum = isLargest ? Math.max(known ?? more, more) : (known ?? 0) + more;
    totals.set(name, sum);
  }
  return lines
    .map((line) => (typeof line === "string" ? line : `${line.total} ${totals.get(line.total)}`))
    .join("\n");
}
