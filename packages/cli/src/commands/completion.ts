/** `completion`: the script that teaches a shell the commands and options. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { optionsOf } from "../parse-arguments.ts";
import { serverFlagRows } from "../shared-options.ts";

type Write = (rows: readonly CommandRow[]) => string;

const shells: ReadonlyMap<string, Write> = new Map([
  ["bash", bashCompletion],
  ["zsh", zshCompletion],
  ["fish", fishCompletion],
]);

export async function run(call: Call): Promise<void> {
  const shell = call.word(0);
  const write = shells.get(shell);
  if (write === undefined) {
    const names = [...shells.keys()].join(", ");
    throw usageError(`there is no completion for ${JSON.stringify(shell)}; choose one of ${names}`);
  }
  const script = write(call.commands);
  if (call.json) call.printJson({ shell, script });
  else call.host.output.write(script);
}

/**
 * The words that can follow at each position of the command line, from the table of commands, for all
 * shells.
 */
interface Position {
  /** The words before it: ``, `task`, `task create`. */
  readonly path: string;
  /** Words that continue the name of a command. */
  readonly words: readonly { readonly word: string; readonly about: string }[];
  readonly options: readonly OptionRow[];
  /** Arguments with a known set of values. */
  readonly choices: readonly string[];
  /** Whether one of its arguments is a queue. */
  readonly takesQueue: boolean;
}

function positionsOf(rows: readonly CommandRow[]): readonly Position[] {
  const names = new Set(rows.flatMap(({ name }) => [name, name.split(" ")[0] as string]));
  const first = { words: firstWords(rows), options: [], choices: [], takesQueue: false };
  return [{ path: "", ...first }, ...[...names].map((path) => positionOf(path, rows))];
}

/** The position after the name of a command, after the first word of several commands, or both. */
function positionOf(path: string, rows: readonly CommandRow[]): Position {
  const row = rows.find(({ name }) => name === path);
  const given = row?.arguments ?? [];
  return {
    path,
    words: rows
      .filter(({ name }) => name.startsWith(`${path} `))
      .map(({ name, about }) => ({ word: name.slice(path.length + 1), about })),
    options:
      row === undefined
        ? []
        : [...optionsOf(row), ...(row.serverFlags === undefined ? [] : serverFlagRows())],
    choices: choicesOf(given),
    takesQueue: given.some(({ isQueue }) => isQueue === true),
  };
}

function firstWords(rows: readonly CommandRow[]): Position["words"] {
  const words = new Map<string, string>();
  for (const { name, about } of rows) {
    const [first = "", second] = name.split(" ");
    if (second === undefined) words.set(first, about);
    else if (!words.has(first)) words.set(first, `${first} commands`);
  }
  return [...words].map(([word, about]) => ({ word, about }));
}

function choicesOf(rows: readonly ArgumentRow[]): readonly string[] {
  return rows[0]?.choices ?? [];
}

/** All options that take a value, wherever they may stand. */
function valueOptions(positions: readonly Position[]): readonly OptionRow[] {
  const found = new Map<string, OptionRow>();
  for (const { options } of positions) {
    for (const option of options) if (option.value !== undefined) found.set(option.name, option);
  }
  return [...found.values()];
}

/** Options whose values are known, with the values. */
function choiceOptions(positions: readonly Position[]): readonly OptionRow[] {
  return valueOptions(positions).filter(({ choices }) => choices !== undefined);
}

/** Options whose value is a queue, each behind the name of its command. */
function queueOptions(positions: readonly Position[]): readonly string[] {
  return positions.flatMap(({ path, options }) =>
    options.filter(({ isQueue }) => isQueue === true).map(({ name }) => `${path} --${name}`),
  );
}

/** Completion for bash: `source <(codeq completion bash)`. */
function bashCompletion(rows: readonly CommandRow[]): string {
  const positions = positionsOf(rows);
  const values = valueOptions(positions).map(({ name }) => `--${name}`);
  const choices = choiceOptions(positions).map(
    (option) => `    --${option.name}) words="${option.choices?.join(" ")}" ;;`,
  );
  const queues = queueOptions(positions).map((option) => `"${option}"`);
  const branches = positions.map(({ path, words, options, choices: offered, takesQueue }) => {
    const all = [...words.map(({ word }) => word), ...offered];
    const flags = options.map(({ name }) => `--${name}`);
    const asks = takesQueue ? " queues=1" : "";
    return `    "${path}") words="${all.join(" ")}" flags="${flags.join(" ")}"${asks} ;;`;
  });
  return `# Completion of codeq for bash. Load it with: source <(codeq completion bash)
_codeq() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  local path="" words="" flags="" queues="" word index
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$word" in
      --) COMPREPLY=(); compopt -o default; return ;;
      ${values.join("|")}) ((index++)); continue ;;
      -*) continue ;;
    esac
    case "$path $word" in
${pathPatterns(positions.map(({ path }) => path))}
    esac
  done
  case "$path $before" in
    ${queues.join("|")}) queues=1 ;;
    *) case "$before" in
${choices.join("\n")}
    ${values.join("|")}) compopt -o default; return ;;
    *) case "$path" in
${branches.join("\n")}
    esac ;;
    esac ;;
  esac
  if [[ "$current" == -* ]]; then words="$flags"
  elif [[ -n "$queues" ]]; then words="$words $(codeq queues --names 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ "\${#COMPREPLY[@]}" -eq 0 ]] && compopt -o default
  return 0
}
complete -F _codeq codeq
`;
}

/** How a word leads on from a position to the next. */
function pathPatterns(paths: readonly string[]): string {
  return paths
    .filter((path) => path !== "")
    .map((path) => {
      const [first, second] = path.split(" ");
      const seen = second === undefined ? ` ${first}` : `${first} ${second}`;
      return `      "${seen}") path="${path}" ;;`;
    })
    .join("\n");
}

/** Completion for zsh: `source <(codeq completion zsh)`, or a file `_codeq` on the fpath. */
function zshCompletion(rows: readonly CommandRow[]): string {
  const positions = positionsOf(rows);
  const values = valueOptions(positions).map(({ name }) => `--${name}`);
  const queues = queueOptions(positions).map((option) => `"${option}"`);
  const branches = positions.map(({ path, words, options, choices, takesQueue }) => {
    const all = [
      ...words.map(({ word, about }) => offer(word, about)),
      ...choices.map((choice) => offer(choice, "")),
    ];
    const flags = options.map(({ name, about }) => offer(`--${name}`, about));
    const asks = takesQueue ? " queues=1" : "";
    return `    "${path}") offers=(${all.join(" ")}) flags=(${flags.join(" ")})${asks} ;;`;
  });
  const steps = positions.filter(({ path }) => path !== "").map(({ path }) => stepOf(path));
  return `#compdef codeq
# Completion of codeq for zsh. Load it with: source <(codeq completion zsh)
_codeq() {
  local trail="" word index
  for ((index = 2; index < CURRENT; index++)); do
    word="\${words[index]}"
    case "$word" in
      --) _files; return ;;
      ${values.join("|")}) ((index++)); continue ;;
      -*) continue ;;
    esac
    case "$trail $word" in
${steps.join("\n")}
    esac
  done
  case "$trail \${words[CURRENT-1]}" in
    ${queues.join("|")}) compadd -- \${(f)"$(codeq queues --names 2>/dev/null)"}; return ;;
  esac
  case "\${words[CURRENT-1]}" in
${choiceOptions(positions)
  .map(({ name, choices = [] }) => `    --${name}) compadd -- ${choices.join(" ")}; return ;;`)
  .join("\n")}
    ${values.join("|")}) _files; return ;;
  esac
  local -a offers flags
  local queues=""
  case "$trail" in
${branches.join("\n")}
  esac
  if [[ "\${words[CURRENT]}" = -* ]]; then offers=("\${flags[@]}")
  elif [[ -n "$queues" ]]; then offers+=(\${(f)"$(codeq queues --names 2>/dev/null)"})
  fi
  _describe -t commands codeq offers || _files
}
if [[ "\${funcstack[1]}" = "_codeq" ]]; then _codeq "$@"; else compdef _codeq codeq; fi
`;
}

function stepOf(path: string): string {
  const [first, second] = path.split(" ");
  return `      "${second === undefined ? ` ${first}` : `${first} ${second}`}") trail="${path}" ;;`;
}

function offer(word: string, about: string): string {
  const text = about === "" ? word : `${word}:${about}`;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const askQueues = "(codeq queues --names 2>/dev/null)";

/** Completion for fish: `codeq completion fish | source`. */
function fishCompletion(rows: readonly CommandRow[]): string {
  const positions = positionsOf(rows);
  const values = valueOptions(positions).map(({ name }) => `--${name}`);
  const lines = positions.flatMap(({ path, words, options, choices, takesQueue }) => {
    const at = `-n '__codeq_at "${path}"'`;
    return [
      ...words.map(({ word, about }) => `complete -c codeq -f ${at} -a ${word} -d ${quote(about)}`),
      ...(choices.length === 0
        ? []
        : [`complete -c codeq -f ${at} -a ${quote(choices.join(" "))}`]),
      ...(takesQueue ? [`complete -c codeq -f ${at} -a '${askQueues}'`] : []),
      ...options.map((option) => {
        const asks = option.isQueue === true ? ` -f -a '${askQueues}'` : "";
        return `complete -c codeq ${at} ${optionText(option)}${asks}`;
      }),
    ];
  });
  return `# Completion of codeq for fish. Load it with: codeq completion fish | source
function __codeq_at
    set -l trail
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $word
            case ${values.join(" ")}
                set skip 1
            case '-*'
            case '*'
                contains -- "$(string join ' ' $trail $word)" ${positions
                  .filter(({ path }) => path !== "")
                  .map(({ path }) => quote(path))
                  .join(" ")}
                and set -a trail $word
        end
    end
    test "$trail" = "$argv[1]"
end
${lines.join("\n")}
`;
}

function optionText({ name, short, value, choices, about }: OptionRow): string {
  const dash = short === undefined ? "" : ` -s ${short}`;
  const takes = value === undefined ? "" : " -r";
  const offers = choices === undefined ? "" : ` -f -a ${quote(choices.join(" "))}`;
  return `-l ${name}${dash}${takes}${offers} -d ${quote(about)}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
