/** The request bodies. Fields that are not named are ignored. */
import {
  flag,
  integer,
  list,
  nonEmptyList,
  nonEmptyText,
  object,
  positiveInteger,
  rawObject,
  rawValue,
  requiredText,
  type Shape,
  text,
} from "./json-body.ts";

const createFields = {
  command: text,
  payload: rawValue,
  priority: integer,
  webhook: text,
  maxAttempts: integer,
  idempotencyKey: text,
  runAt: text,
  delaySeconds: integer,
};

export const CreateItem = object(createFields);
export const CreateBody = object({ ...createFields, command: nonEmptyText });
export const CreateBatchBody = object({ tasks: nonEmptyList(CreateItem) });

const texts: Shape<string[] | undefined> = list(requiredText);

export const ClaimBody = object({ commands: texts, leaseSeconds: integer, waitSeconds: integer });
export const ClaimBatchBody = object({
  commands: texts,
  leaseSeconds: integer,
  count: positiveInteger,
});

export const HeartbeatBody = object({ extendSeconds: integer, leaseToken: integer });
export const NackBody = object({ delaySeconds: integer, reason: text, leaseToken: integer });
export const AbandonBody = object({ interrupted: flag, leaseToken: integer });

const resultFields = {
  status: text,
  result: rawObject,
  error: text,
  artifacts: list(object({ name: text, url: text, contentBase64: text, contentType: text })),
  leaseToken: integer,
};

export const ResultBody = object({ ...resultFields, status: nonEmptyText });
export const ResultItem = object({ ...resultFields, taskId: text });
export const ResultBatchBody = object({ results: nonEmptyList(ResultItem) });

export const CleanUpBody = object({ limit: integer, before: text });

/** A field that is not known is refused: passed over, it could make a key that may do too much. */
export const CreateApiKeyBody = object(
  {
    name: requiredText,
    scopes: texts,
    eventTypes: texts,
    role: text,
    expiresAt: text,
    expiresInSeconds: integer,
  },
  { isClosed: true },
);
