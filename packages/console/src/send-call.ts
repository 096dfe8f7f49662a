/** Does what a button says: sends the call, tells what was done, and asks again for what it changed. */
import { ask, type Request } from "./api.ts";
import { invalidate } from "./query.ts";
import { tell, tellProblem } from "./toasts.tsx";

/** Throws what the server refused with. `changed` begins the keys of the queries to ask again. */
export async function sendCall(call: Request, done: string, changed = ""): Promise<void> {
  await ask(call);
  tell(done);
  invalidate(changed);
}

/** For buttons without a dialog: a refusal is told like success. */
export function sendNow(call: Request, done: string, changed = ""): void {
  sendCall(call, done, changed).catch(tellProblem);
}
