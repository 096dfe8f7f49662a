/**
 * Who holds a lease. A worker may give itself a name, but only within what its token says it is: two
 * tokens can never produce the same id, whatever names they choose.
 *
 *   no name, or the subject itself   the subject
 *   a name                           ~<name, escaped>@<subject>
 *
 * Escaped names contain no @, so the first one ends the name; subjects that begin with a tilde are
 * written in the second form, with an empty name.
 */
import type { WorkerId } from "@codeq/queue";

export function workerIdOf(subject: string, name: string): WorkerId {
  if (name !== "" && name !== subject) {
    return `~${encodeURIComponent(name)}@${subject}` as WorkerId;
  }
  return (subject.startsWith("~") ? `~@${subject}` : subject) as WorkerId;
}
