/** The name of a page, what it shows, and what can be done there. */
import type { ComponentChildren, JSX } from "preact";

export function PageHead({
  title,
  about,
  children,
}: {
  readonly title: ComponentChildren;
  readonly about: ComponentChildren;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="page-head">
      <div>
        <h1>{title}</h1>
        <p>{about}</p>
      </div>
      {children === undefined ? null : <div class="acts">{children}</div>}
    </div>
  );
}
