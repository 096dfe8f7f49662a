/** Completion for bash: `source <(codeq completion bash)`. */
import type { CommandRow } from "../command.ts";
import { choiceOptions, positionsOf, queueOptions, valueOptions } from "./positions.ts";

export function bashCompletion(rows: readonly CommandRow[]): string {
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
