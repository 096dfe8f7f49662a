/** Generated from packages/protocol/src/api by `npm run gen`; edit that instead. */

/** What a queue does with its tasks. */
export interface TopicPolicy {
  /** Priorities that tasks may have. */
  readonly priorityTiers: readonly number[];
  /** Attempts of a task that does not say how many. */
  readonly maxAttempts: number;
  /** The queue that gets a copy of every dead letter. */
  readonly deadLetterTopicRef?: string | undefined;
  /** Seconds that finished tasks are kept; 0 for what the server says. */
  readonly retentionSeconds?: number | undefined;
  /** How many tasks may be leased; 0 for any number. */
  readonly maxConsumers?: number | undefined;
}

/** A queue with a policy of its own. */
export interface Topic {
  readonly topicId: string;
  readonly tenantId: string;
  /** Also the name of the queue. */
  readonly topicName: string;
  readonly policy: TopicPolicy;
  /** Grows with every change of the policy. */
  readonly version: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}
