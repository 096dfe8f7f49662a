/** Every promise that is watched, by the name of its checker. */
import { acknowledgedIsKept } from "./acknowledged-is-kept.ts";
import { attempts } from "./attempts.ts";
import { begunInTime } from "./begun-in-time.ts";
import { cancelledIsOver } from "./cancelled-is-over.ts";
import type { MakeChecker } from "./checker.ts";
import { claimsAreCounted } from "./claims-are-counted.ts";
import { conservation } from "./conservation.ts";
import { counters } from "./counters.ts";
import { deliveriesAreLogged } from "./deliveries-are-logged.ts";
import { durableBeforeVisible } from "./durable-before-visible.ts";
import { editsAreKept } from "./edits-are-kept.ts";
import { everythingFinishes } from "./everything-finishes.ts";
import { explanationsHold } from "./explanations-hold.ts";
import { fencing } from "./fencing.ts";
import { fifo } from "./fifo.ts";
import { filesAreThere } from "./files-are-there.ts";
import { fullDiskPasses } from "./full-disk-passes.ts";
import { jobsApplyOnce } from "./jobs-apply-once.ts";
import { keysMatchRecords } from "./keys-match-records.ts";
import { noInternalError } from "./no-internal-error.ts";
import { notBeforeDue } from "./not-before-due.ts";
import { oneLease } from "./one-lease.ts";
import { oneTaskPerKey } from "./one-task-per-key.ts";
import { pausedStandsStill } from "./paused-stands-still.ts";
import { priorityOrder } from "./priority-order.ts";
import { promotedInTime } from "./promoted-in-time.ts";
import { quotasHold } from "./quotas-hold.ts";
import { recovery } from "./recovery.ts";
import { refusedChangesNothing } from "./refused-changes-nothing.ts";
import { replays } from "./replays.ts";
import { resultWhenTerminal } from "./result-when-terminal.ts";
import { resultsAreKept } from "./results-are-kept.ts";
import { rottenIsNotServed } from "./rotten-is-not-served.ts";
import { silentAfterFailure } from "./silent-after-failure.ts";
import { stallsDoNotCount } from "./stalls-do-not-count.ts";
import { storedBytes } from "./stored-bytes.ts";
import { subscribersAreTold } from "./subscribers-are-told.ts";
import { tenantsAreApart } from "./tenants-are-apart.ts";
import { terminalIsFinal } from "./terminal-is-final.ts";
import { toldIsDurable } from "./told-is-durable.ts";
import { topicLimitsHold } from "./topic-limits-hold.ts";
import { webhooksArrive } from "./webhooks-arrive.ts";
import { withinTimeout } from "./within-timeout.ts";

export const checkers = {
  jobsApplyOnce,
  keysMatchRecords,
  acknowledgedIsKept,
  conservation,
  recovery,
  oneLease,
  stallsDoNotCount,
  fencing,
  terminalIsFinal,
  resultsAreKept,
  fifo,
  priorityOrder,
  notBeforeDue,
  promotedInTime,
  begunInTime,
  withinTimeout,
  attempts,
  claimsAreCounted,
  oneTaskPerKey,
  tenantsAreApart,
  resultWhenTerminal,
  counters,
  storedBytes,
  quotasHold,
  durableBeforeVisible,
  toldIsDurable,
  refusedChangesNothing,
  fullDiskPasses,
  silentAfterFailure,
  noInternalError,
  webhooksArrive,
  deliveriesAreLogged,
  subscribersAreTold,
  filesAreThere,
  topicLimitsHold,
  replays,
  pausedStandsStill,
  cancelledIsOver,
  editsAreKept,
  explanationsHold,
  everythingFinishes,
  rottenIsNotServed,
} as const satisfies Record<string, MakeChecker>;

export type CheckerName = keyof typeof checkers;
