/** After a failed write or sync nothing is acknowledged any more; only a new start answers again. */
import type { AnyExchange } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

export const silentAfterFailure: MakeChecker = ({ report }) => ({
  answered: (exchange) => {
    if (exchange.afterFailure && acknowledges(exchange)) {
      report(`${exchange.verb} ${exchange.number} was acknowledged after the storage failed`);
    }
  },
});

function acknowledges(exchange: AnyExchange): boolean {
  if (!exchange.answer.ok) return false;
  switch (exchange.verb) {
    case "createTask":
      return !exchange.answer.value.replayed;
    case "createTasks":
      return exchange.answer.value.some((each) => each.ok && !each.value.replayed);
    case "claimTasks":
      return exchange.answer.value.length > 0;
    case "submitResult":
    case "nackTask":
    case "abandonTask":
    case "extendLease":
      return true;
    case "submitResults":
      return exchange.answer.value.some(({ ok }) => ok);
    case "cleanUp":
      return exchange.answer.value.deleted > 0;
    default:
      return false;
  }
}
