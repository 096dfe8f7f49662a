/** `tail`: prints a line for every event of tasks of the token's tenant, live. */
import type { Call } from "../../call.ts";
import { count } from "../../terminal/units.ts";
import { eventLine, followFeed } from "../../watch/events.ts";

export async function run(call: Call): Promise<void> {
  await followFeed(call, await call.api(), {
    command: call.word(0),
    types: call.options.text("type") ?? "",
    signal: call.host.stopped(),
    heard: (event) => {
      if (call.json) call.printJson(event);
      else call.print(eventLine(event, call.style));
    },
    missed: (number) => {
      if (call.json) call.printJson({ event: "missed", count: number });
      else
        call.note(
          `${count(number)} events were missed because they arrived faster than they could be read`,
        );
    },
    note: (line) => call.note(line),
  });
}
