/** What the last stage of a Dockerfile says about the image, for tests that do without an engine. */

export interface Image {
  readonly env: Readonly<Record<string, string>>;
  /** Numbers, with a colon between. */
  readonly user: string;
  readonly directory: string;
  readonly volume: string;
  readonly stopSignal: string;
  readonly healthCheck: readonly string[];
  readonly command: readonly string[];
  /** From the build stage: what, where to, and for whom if not for root. */
  readonly copies: readonly Copy[];
}

interface Copy {
  readonly sources: readonly string[];
  readonly target: string;
  readonly owner: string | undefined;
}

export function imageOf(dockerfile: string): Image {
  const lines = dockerfile
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const stage = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")) + 1);
  const all = (word: string): string[] =>
    stage.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
  const one = (word: string): string => {
    const [value = "", ...others] = all(word);
    if (value === "" || others.length > 0) throw new Error(`there has to be one ${word}`);
    return value;
  };
  const list = (text: string): string[] => JSON.parse(text.slice(text.indexOf("[")));
  return {
    env: Object.fromEntries(one("ENV").split(/\s+/).map(pair)),
    user: one("USER"),
    directory: one("WORKDIR"),
    volume: one("VOLUME"),
    stopSignal: one("STOPSIGNAL"),
    healthCheck: list(one("HEALTHCHECK")),
    command: [...list(one("ENTRYPOINT")), ...list(one("CMD"))],
    copies: all("COPY").map(copyOf),
  };
}

function pair(text: string): [string, string] {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
}

function copyOf(text: string): Copy {
  const words = text.split(/\s+/);
  const paths = words.filter((word) => !word.startsWith("--"));
  const owner = words.find((word) => word.startsWith("--chown="))?.slice("--chown=".length);
  return { sources: paths.slice(0, -1), target: paths.at(-1) ?? "", owner };
}
