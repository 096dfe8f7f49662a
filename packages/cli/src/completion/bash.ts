/** Completion for bash: `source <(codeq completion bash)`. */
import type { CommandRow } from "../command.ts";
import { choiceOptions, placesOf, valueOptions } from "./places.ts";

export function bashCompletion(rows: readonly CommandRow[]): string {
  const places = placesOf(rows);
  const branch = (pattern: string, words: readonly string[]): string =>
    `    ${pattern}) offers="${words.join(" ")}" ;;`;
  const values = valueOptions(places).map(({ name }) => `--${name}`);
  return `# Completion of codeq for bash. Load it with: source <(codeq completion bash)
_codeq() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  local path="" offers="" word index
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$word" in
      --) COMPREPLY=(); compopt -o default; return ;;
      ${values.join("|")}) ((index++)); continue ;;
      -*) continue ;;
    esac
    case "$path $word" in
${pathPatterns(places.map(({ path }) => path))}
    esac
  done
  case "$before" in
${choiceOptions(places)
  .map(({ name, choices = [] }) => branch(`--${name}`, choices))
  .join("\n")}
    ${values.join("|")}) compopt -o default; return ;;
  esac
  if [[ -z "$offers" ]]; then case "$path" in
${places
  .map(({ path, words, options, choices }) => {
    const names = options.map(({ name }) => `--${name}`);
    return branch(`"${path}"`, [...words.map(({ word: each }) => each), ...choices, ...names]);
  })
  .join("\n")}
  esac; fi
  COMPREPLY=($(compgen -W "$offers" -- "$current"))
  [[ "\${#COMPREPLY[@]}" -eq 0 ]] && compopt -o default
}
complete -F _codeq codeq
`;
}

/** How a word leads on from a place to the next. */
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
