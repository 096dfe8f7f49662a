/** Completion for zsh: `source <(codeq completion zsh)`, or a file `_codeq` on the fpath. */
import type { CommandRow } from "../command.ts";
import { choiceOptions, positionsOf, queueOptions, valueOptions } from "./positions.ts";

export function zshCompletion(rows: readonly CommandRow[]): string {
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
