/**
 * Seeds that showed a bug, each with what it showed. They run before any fresh ones. A seed tells the
 * same story only as long as the server does the same things, so each was tried again, without its
 * fix, when it was written down here.
 */
export const seeds: readonly { readonly seed: number; readonly showed: string }[] = [
  {
    seed: 4,
    showed: "a read waited for one state of a task to be durable and then showed a newer one",
  },
  {
    seed: 13,
    showed: "of tasks promoted together a waiting claim got the first instead of the most urgent",
  },
  {
    seed: 36,
    showed: "a start on a full disk counted a batch twice that the kv had kept and called failed",
  },
  {
    seed: 50,
    showed: "so did the way back from a full disk without a restart",
  },
  {
    seed: 55,
    showed: "a record whose sync had failed was trusted by the next start and lost with the power",
  },
  {
    seed: 9,
    showed: "such a record left a log that could not be opened any more",
  },
  {
    seed: 127,
    showed: "a new segment that could not be opened left its name behind and broke the next start",
  },
  {
    seed: 900149,
    showed: "a webhook told of a result that a full disk had refused when undoing it failed, too",
  },
  {
    seed: 240,
    showed: "of a batch of results one met a failed storage and left those before it unattended",
  },
  {
    seed: 1051,
    showed: "a feed told of a task that was given back before it told of the claim",
  },
  {
    seed: 910037,
    showed: "the end of an attempt was told before the claim that became durable with it",
  },
  {
    seed: 2000132,
    showed:
      "a webhook that ended while the due ones were read was sent again, and twice ever after",
  },
  {
    seed: 782925989,
    showed: "a webhook that became due while webhooks were being read was read past",
  },
  {
    seed: 9100488,
    showed: "records that a start had wiped came back when a sync of the wiping had failed",
  },
  {
    seed: 789439902,
    showed:
      "index keys stayed behind when a piece of a long log was kept by a kv that had refused it",
  },
  {
    seed: 7900048,
    showed: "a refused batch that could not be undone was flushed by the end of the server",
  },
  {
    seed: 7910260,
    showed: "a record that was cut came back in front of the segment that took its place",
  },
  {
    seed: 175,
    showed: "time in which a start stood still counted against the leases that it had read",
  },
  {
    seed: 818168158,
    showed:
      "a file was removed whose task named it after a storage that failed had kept the change",
  },
];
