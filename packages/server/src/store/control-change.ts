/** What a write of a control record means to those who hold the records in memory. */
import { type ApiKey, type ApiKeyId, decodeApiKey } from "./api-key-record.ts";
import { type BulkJob, decodeJob } from "./job-record.ts";
import {
  apiKeysPrefix,
  apiKeyUsesPrefix,
  jobsPrefix,
  subscriptionsPrefix,
  subscriptionTurnsPrefix,
} from "./keys.ts";
import type { RecordText } from "./store.ts";
import {
  decodeSubscription,
  type Subscription,
  type SubscriptionId,
} from "./subscription-record.ts";

/** A record is undefined when it is gone. */
export type ControlChange =
  | { readonly of: "api key"; readonly id: ApiKeyId; readonly key: ApiKey | undefined }
  | { readonly of: "use of a key"; readonly id: ApiKeyId; readonly lastUsedMs: number }
  | {
      readonly of: "subscription";
      readonly id: SubscriptionId;
      readonly subscription: Subscription | undefined;
    }
  | { readonly of: "turn"; readonly id: SubscriptionId; readonly toldMs: number }
  | { readonly of: "job"; readonly id: string; readonly job: BulkJob | undefined };

/** Undefined for what nobody holds in memory, such as audit records. */
export function changeOf({ key, text }: RecordText): ControlChange | undefined {
  const id = key.slice(key.lastIndexOf("/") + 1);
  if (key.startsWith(apiKeysPrefix)) {
    return { of: "api key", id: id as ApiKeyId, key: whole(text, decodeApiKey) };
  }
  if (key.startsWith(subscriptionsPrefix)) {
    const subscription = whole(text, decodeSubscription);
    return { of: "subscription", id: id as SubscriptionId, subscription };
  }
  if (key.startsWith(jobsPrefix)) return { of: "job", id, job: whole(text, decodeJob) };
  if (text === undefined) return undefined;
  if (key.startsWith(apiKeyUsesPrefix)) {
    return { of: "use of a key", id: id as ApiKeyId, lastUsedMs: Number(text) };
  }
  if (key.startsWith(subscriptionTurnsPrefix)) {
    return { of: "turn", id: id as SubscriptionId, toldMs: Number(text) };
  }
  return undefined;
}

function whole<T>(
  text: string | undefined,
  decode: (text: string) => T | undefined,
): T | undefined {
  return text === undefined ? undefined : decode(text);
}
