/** Completion for fish: `codeq completion fish | source`. */
import type { CommandRow, OptionRow } from "../command.ts";
import { positionsOf, valueOptions } from "./positions.ts";

const askQueues = "(codeq queues --names 2>/dev/null)";

export function fishCompletion(rows: readonly CommandRow[]): string {
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
