/** Topics as administrators see them. */

/** What a queue does with its tasks. */
export interface TopicPolicy {
  /** The priorities that tasks may have, from 0 to 9; a task that names none gets the lowest. */
  readonly priorityTiers: readonly number[];
  /** Attempts of a task that does not say how many. */
  readonly maxAttempts: number;
  /** The queue that gets a copy of every dead letter. */
  readonly deadLetterTopicRef?: string | undefined;
  /** How long finished tasks are kept. Default: the setting of the server. */
  readonly retentionSeconds?: number | undefined;
  /** How many tasks workers may hold at a time. Default: no limit. */
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
