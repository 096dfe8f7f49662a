/** A table whose rows become cards where the screen is narrow. */
import type { ComponentChildren, JSX } from "preact";

export interface NumberHead {
  readonly number: string;
}

/** The head of a column of numbers or times. */
export function num(text: string): NumberHead {
  return { number: text };
}

export function CardTable({
  heads,
  hasActions = false,
  children,
}: {
  readonly heads: readonly (string | NumberHead)[];
  /** The last column has buttons. */
  readonly hasActions?: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="table-wrap">
      <table class="cards">
        <thead>
          <tr>
            {heads.map((head) =>
              typeof head === "string" ? (
                <th key={head}>{head}</th>
              ) : (
                <th key={head.number} class="num">
                  {head.number}
                </th>
              ),
            )}
            {hasActions ? (
              <th>
                <span class="sr">Actions</span>
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
