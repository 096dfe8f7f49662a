/** A button that changes something. Viewers see the button, cannot press it, and its title says why. */
import type { ComponentChildren, JSX } from "preact";
import { mayAct, readOnlyReason, session } from "../session.ts";
import { useStore } from "../store.ts";

interface ActProps {
  readonly class: string;
  readonly onClick: () => void;
  readonly children: ComponentChildren;
  readonly "aria-label"?: string;
}

export function Act(props: ActProps): JSX.Element {
  useStore(session);
  const isAllowed = mayAct();
  return (
    <button
      {...props}
      type="button"
      disabled={!isAllowed}
      title={isAllowed ? undefined : readOnlyReason}
    />
  );
}
