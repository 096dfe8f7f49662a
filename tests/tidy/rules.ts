/**
 * The rules of STYLE that no compiler or linter checks, as functions over one file. Words that a rule
 * looks for are put together from parts, so that this folder passes its own rules.
 */
import { posix } from "node:path";
import { echoingComments } from "./echoing-comments.ts";
import { plainWords } from "./plain-words.ts";
import {
  codeOf,
  isScript,
  isTest,
  isTypeScript,
  linesWith,
  type Rule,
  type SourceFile,
} from "./source-file.ts";

const emptyWords = /^(utils?|helpers?|commons?|libs?|misc|managers?|services?)$/;

export const fileName: Rule = ({ path }) => {
  if (!isScript(path)) return [];
  const parts = path.split("/");
  const base = parts.at(-1) ?? "";
  if (/^(types|interfaces)\.ts$/.test(base)) {
    return [`is called ${base}; put each type beside what uses it`];
  }
  const words = parts.flatMap((part) => part.replace(/\..*$/, "").split("-"));
  const word = words.find((candidate) => emptyWords.test(candidate));
  return word === undefined ? [] : [`has ${word} in its name; name it after what it does`];
};

const serverRoot = "packages/server/src/";
/** From the top to the bottom: a layer imports its own files and what stands further down. */
const layers: readonly (readonly string[])[] = [
  ["index", "exports"],
  ["start"],
  ["features"],
  ["edge/http", "edge/console", "edge/grpc"],
  ["edge", "edge/access", "edge/audit"],
  ["edge/tls"],
  ["cluster"],
  ["core/shards"],
  ["core/sweeps", "core/outbound"],
  ["core/broker", "core/search", "core/series"],
  ["core/backup"],
  ["core/limiter"],
  ["core/store", "core/records", "core/control"],
  ["config", "telemetry"],
  // Clocks, ids and other leaves.
  ["core"],
];

export const folderOrder: Rule = ({ path, text }) => {
  if (!path.startsWith(serverRoot) || path.endsWith(".test.ts")) return [];
  const from = layerOf(path);
  return relativeImports(text).flatMap((specifier) => {
    const target = posix.join(posix.dirname(path), specifier);
    if (!target.startsWith(serverRoot)) return [];
    const to = layerOf(target);
    if (mayImport(from, to)) return [];
    return [`imports ${specifier}: ${from} may not import ${to}`];
  });
};

/** Features that use another feature, because one is about the other. */
const borrowed: Readonly<Record<string, readonly string[]>> = {
  "features/task-admin": ["features/tasks"],
};

function mayImport(from: string, to: string): boolean {
  if (from === to) return true;
  if (from.startsWith("features/") && to.startsWith("features/")) {
    return borrowed[from]?.includes(to) === true;
  }
  return rankOf(to) >= rankOf(from);
}

function rankOf(layer: string): number {
  const name = layer.startsWith("features/") ? "features" : layer;
  return layers.findIndex((names) => names.includes(name));
}

/** `features/<noun>` of a feature; of core and edge the folder in them, or they themselves. */
function layerOf(path: string): string {
  const parts = path.slice(serverRoot.length).split("/");
  const [first = "", second = ""] = parts;
  const isNested = parts.length > 2 && ["core", "edge", "features"].includes(first);
  return isNested ? `${first}/${second}` : first.replace(/\.ts$/, "");
}

function relativeImports(text: string): string[] {
  const imports = /(?:\bfrom\s+|\bimport\s*\(?\s*)["'](\.{1,2}\/[^"']+)["']/g;
  return [...text.matchAll(imports)].map((match) => match[1] ?? "");
}

export const packageBorder: Rule = ({ path, text }) => {
  const own = /^packages\/[^/]+\//.exec(path)?.[0];
  if (own === undefined || !isTypeScript(path) || isTest(path)) return [];
  return relativeImports(text)
    .filter((specifier) => !posix.join(posix.dirname(path), specifier).startsWith(own))
    .map((specifier) => `imports ${specifier}; import the other package by its name`);
};

/** What a part of the server does not know of, as the table in ARCHITECTURE says. */
interface Ignorance {
  readonly of: string;
  /** Whose imports are looked at; paths below the sources of the server. */
  readonly who: RegExp;
  /** Files and packages that give it away. */
  readonly files: RegExp;
  /** Names that may be imported from them all the same. */
  readonly except?: RegExp;
}

const ignorances: readonly Ignorance[] = [
  {
    of: "the engine below the store",
    who: /^(?!core\/(store|records|control|backup)\/|cluster\/|start\/(open-data-dir\.ts|cluster\/)|exports\/|.*-record\.ts)/,
    files: /^@codeq\/engine$/,
    except: /^(FaultError|EngineState|CommitWaiter|OpenedParts)$/,
  },
  {
    of: "keys and records",
    who: /^(?!core\/(store|records|control|backup)\/|.*-record\.ts)/,
    files: /^core\/(store\/(keys|task-rows|format|stored-bytes)|records\/idempotency-record)\.ts$/,
  },
  {
    of: "the bytes of tasks",
    who: /^(?!core\/(store|records|backup)\/|core\/shards\/(wire|remote-shard|shard-host)\.ts)/,
    files: /^core\/store\/(bytes|task-codec)\.ts$/,
  },
  {
    of: "HTTP and gRPC",
    who: /^(?!edge\/(http|grpc|tls|console)\/|edge\/[\w-]+\.ts|features\/.*(-routes|-replies|-stream|streams\/.*)\.ts|start\/|exports\/)/,
    files:
      /^(fastify|node:http2?|node:https|@codeq\/protocol\/wire|edge\/(http|grpc|tls|console)\/.*)$/,
    except: /^(ClientRequest|IncomingMessage|RequestOptions|request|Agent)$/,
  },
  {
    of: "tokens and identities",
    who: /^core\//,
    files: /^(edge\/access\/.*|jose)$/,
  },
  {
    of: "the insides of the broker",
    who: /^(edge|features|core\/(store|records|control)|config|telemetry)\//,
    files:
      /^core\/(shards\/.*|broker\/(?!(verbs|claims\/claim|broker|webhooks)\.ts).*|search\/(task-search|task-reads|explain)\.ts)$/,
  },
  {
    of: "tasks and payloads",
    who: /^edge\/access\//,
    files: /^(core\/(broker|search)|features)\/.*$/,
  },
];

/** What is imported from where: names, and the file below the sources of the server or the package. */
function* namedImports({ path, text }: SourceFile): Generator<{ file: string; names: string[] }> {
  const statements = /\bimport\s+(?:type\s+)?(?:\{([^}]*)\}|(\w+))\s+from\s+["']([^"']+)["']/g;
  for (const [, list, name, specifier = ""] of text.matchAll(statements)) {
    const names = (list ?? name ?? "").split(",").map((each) => each.replace(/^\s*type\s+/, ""));
    const found = names.map((each) => each.trim().split(/\s+/)[0] ?? "").filter(Boolean);
    const target = posix.join(posix.dirname(path), specifier);
    const isOurs = specifier.startsWith(".") && target.startsWith(serverRoot);
    yield { file: isOurs ? target.slice(serverRoot.length) : specifier, names: found };
  }
}

export const mustNotKnow: Rule = (file) => {
  if (!file.path.startsWith(serverRoot) || isTest(file.path)) return [];
  const own = file.path.slice(serverRoot.length);
  return [...namedImports(file)].flatMap(({ file: target, names }) =>
    ignorances
      .filter(({ who, files, except }) => {
        if (!who.test(own) || !files.test(target)) return false;
        return except === undefined || !names.every((name) => except.test(name));
      })
      .map(({ of }) => `imports ${names.join(", ")} of ${target}: it must not know of ${of}`),
  );
};

interface Ban {
  readonly pattern: RegExp;
  readonly why: string;
  /** Files in which it is at home. */
  readonly home: RegExp;
  /** Files in which it is looked for. */
  readonly scope: RegExp;
}

const join = (...parts: string[]) => new RegExp(parts.join(""));
/**
 * Code that has to behave the same when it is run again: the simulation, and all packages but the console,
 * which runs in a browser and shows the time there.
 */
const deterministic = /^(packages\/(?!console\/)[^/]+\/src|tests\/simulation)\/.*\.ts$/;
const packageSource = /^packages\/(?!console\/)[^/]+\/src\/(?!.*\.test\.ts$).*\.ts$/;
const nowhere = /^$/;

const bans: readonly Ban[] = [
  {
    pattern: join("\\bDate\\s*\\.\\s*", "now\\b|\\bnew\\s+", "Date\\s*(\\(\\s*\\)|[;,)])"),
    why: "reads the wall clock; take the time from the clock that is passed in",
    home: /^packages\/(server\/src\/core|client\/src)\/clock\.ts$/,
    scope: deterministic,
  },
  {
    pattern: join("\\bMath\\s*\\.\\s*", "random\\b"),
    why: "draws a number that no seed decides; take the random source that is passed in",
    home: nowhere,
    scope: deterministic,
  },
  {
    pattern: join("\\brandom", "UUID\\b"),
    why: "makes an id that no seed decides; take the id source that is passed in",
    home: nowhere,
    scope: deterministic,
  },
  {
    pattern: join("\\bset", "(Timeout|Interval)\\s*\\(|\\btimers/", "promises\\b"),
    why: "sets a timer; ask the clock that is passed in",
    home: /^packages\/(server\/src\/(core\/clock\.ts|edge\/http\/)|client\/src\/clock\.ts)/,
    scope: packageSource,
  },
  {
    pattern: join("\\bprocess\\s*\\.\\s*", "env\\b"),
    why: "reads the environment; add a row to config/setting-table.ts",
    // The log server is a child process, which gets the environment of its node.
    home: /^packages\/(server\/src\/(config\/|cluster\/etcd\/etcd-process\.ts)|cli\/src\/main\.ts|client\/src\/client\.ts)/,
    scope: packageSource,
  },
];

export const homes: Rule = ({ path, text }) => {
  const code = codeOf(text);
  return bans
    .filter((ban) => ban.scope.test(path) && !ban.home.test(path))
    .flatMap((ban) => linesWith(code, ban.pattern).map((line) => `line ${line} ${ban.why}`));
};

const wireRules: readonly { readonly scope: RegExp; readonly pattern: RegExp; why: string }[] = [
  {
    scope: /^packages\/(client|cli|console|nest|outbox)\/src\/(?!.*\.test\.ts$).*\.tsx?$/,
    pattern: join(
      "\\bask(<[^(]*>)?\\(\\s*\\{\\s*(method|path)\\b",
      "|(?<!function |async )\\b(ask|useAnswer)<[^(]*>\\(",
      "|\\bJSON\\.parse\\([^;\\n]*\\) as\\b",
      "|\\bapi\\.(get|post|put|patch|delete)\\(",
      "|\\.json\\(\\)\\) as\\b",
      "|\\b(call|ask|page)\\(([^()]|\\([^()]*\\))*\\)\\)? as\\b",
    ),
    why: "calls the API or types an answer by hand; call the endpoint by its key",
  },
  {
    scope: /^packages\/server\/src\/(edge|features)\/.*\.ts$/,
    pattern: /\bproperties\s*:/,
    why: "describes a value of the API by hand; write a shape in packages/protocol/src/api",
  },
];
/** JSON that is no answer of the API, and the code that sends requests and reads answers. */
const otherJson =
  /^packages\/(client\/src\/(http\/|api-calls|payload\/json-text)|cli\/src\/(doctor\/|version|local\/|commands\/init)|console\/src\/(api|feed|session)\.ts)/;

/** A field of the API is declared in packages/protocol/src/api, and nowhere else. */
export const wireFields: Rule = ({ path, text }) => {
  if (otherJson.test(path)) return [];
  const code = codeOf(text);
  return wireRules
    .filter(({ scope }) => scope.test(path))
    .flatMap(({ pattern, why }) =>
      [...code.matchAll(new RegExp(pattern, "g"))].map(
        ({ index }) => `line ${code.slice(0, index).split("\n").length} ${why}`,
      ),
    );
};

/** A layout that only saves lines hides how long a file is. */
export const packedLayout: Rule = ({ path, text }) => {
  if (!/^packages\/[^/]+\/src\//.test(path) || isTest(path)) return [];
  const lines = linesWith(codeOf(text), /^\s*\.\.\.\{ .* \},?$/);
  return lines.map((line) => `line ${line} packs properties into one line; write one on each`);
};

/** Also the promise flavour, which is imported under many names. */
const sleeps = [
  join("\\bawait\\s+(sleep|delay|wait|pause|set", "Timeout|scheduler\\.wait)\\s*\\("),
  join("(=>|\\{)\\s*(void\\s+)?set", "Timeout\\s*\\(\\s*(resolve|done|ok|r|res)\\b"),
];

/** Folders of tests with programs that are none. */
const notTests = ["tests/bench/", "tests/chaos/", "tests/trace-demo/"];

export const sleeping: Rule = (file) => {
  const { path } = file;
  if (!isTest(path) || !isScript(path) || notTests.some((each) => path.startsWith(each))) return [];
  const code = codeOf(file.text);
  const lines = new Set(sleeps.flatMap((pattern) => linesWith(code, pattern)));
  for (const line of linesWith(file.text, join("from\\s+[\"'](node:)?timers/", "promises"))) {
    lines.add(line);
  }
  return [...lines].map((line) => `line ${line} sleeps; wait for the event instead`);
};

export const testSelection: Rule = ({ path, text }) => {
  if (!isTest(path) || !isScript(path)) return [];
  const code = codeOf(text).split("\n");
  const raw = text.split("\n");
  return code.flatMap((line, index) => {
    if (join("\\.", "only\\s*\\(|\\b", "only:\\s*true").test(line)) {
      return [`line ${index + 1} runs only some tests; remove it before committing`];
    }
    const skips = join(
      "\\b(test|it|describe|suite)\\.",
      "(skip|todo)\\s*\\(|\\bskip:\\s*true",
    ).test(line);
    const explained = [raw[index - 1], raw[index]].some((near) => /\/\/ \w+/.test(near ?? ""));
    return skips && !explained ? [`line ${index + 1} skips a test; say why in a comment`] : [];
  });
};

export const unfinished: Rule = ({ path, text }) => {
  if (!isScript(path)) return [];
  const loose = linesWith(text, join("\\bTO", "DO\\b(?!\\([^)\\s]+\\))"));
  const broken = linesWith(text, join("\\bFIX", "ME\\b"));
  return [
    ...loose.map((line) => `line ${line} leaves work without an issue; write TO${"DO"}(issue)`),
    ...broken.map((line) => `line ${line} marks something broken; mend it first`),
  ];
};

const machinePaths = [
  // A home or workspace directory of somebody's machine.
  /(?<![\w.:/~-])\/(home|Users|root|work|workspace|mnt)\/[\w.-]/,
  /\b[A-Z]:\\+Users\\/,
  /\bfile:\/\/\/(home|Users|root|work)\b/,
];
const registryHosts =
  /https?:\/\/[^\s"'/]*(registry|artifactory|nexus|verdaccio|\bnpm\b|pkg\.dev)[^\s"'/]*|\bregistry\.(npmjs|yarnpkg|npmmirror)\b/i;

export const machineTraces: Rule = ({ text }: SourceFile) => [
  ...machinePaths
    .flatMap((pattern) => linesWith(text, pattern))
    .map((line) => `line ${line} names a path of one machine`),
  ...linesWith(text, registryHosts).map((line) => `line ${line} names a package registry`),
];

export const rules: Readonly<Record<string, Rule>> = {
  fileName,
  folderOrder,
  packageBorder,
  mustNotKnow,
  homes,
  wireFields,
  packedLayout,
  sleeping,
  testSelection,
  unfinished,
  machineTraces,
  plainWords,
  echoingComments,
};
