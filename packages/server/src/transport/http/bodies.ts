/** The request bodies, as schemas. Fields that are not named are ignored. */
import { type Static, type TObject, Type } from "@sinclair/typebox";
import { keptAsText } from "./json-outline.ts";

const integer = Type.Optional(Type.Union([Type.Integer(), Type.Null()]));
const text = Type.Optional(Type.Union([Type.String(), Type.Null()]));

const createFields = {
  command: text,
  payload: Type.Optional(Type.Unknown(keptAsText)),
  priority: integer,
  webhook: text,
  maxAttempts: integer,
  idempotencyKey: text,
  runAt: text,
  delaySeconds: integer,
};

export const CreateItem = Type.Object(createFields);
export const CreateBody = Type.Object({ ...createFields, command: Type.String({ minLength: 1 }) });
export const CreateBatchBody = Type.Object({ tasks: Type.Array(CreateItem, { minItems: 1 }) });

export const ClaimBody = Type.Object({
  commands: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  leaseSeconds: integer,
  waitSeconds: integer,
});
export const ClaimBatchBody = Type.Object({
  commands: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  leaseSeconds: integer,
  count: Type.Integer({ minimum: 1 }),
});

export const HeartbeatBody = Type.Object({ extendSeconds: integer, leaseToken: integer });
export const NackBody = Type.Object({ delaySeconds: integer, reason: text, leaseToken: integer });
export const AbandonBody = Type.Object({
  interrupted: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
  leaseToken: integer,
});

const resultFields = {
  status: text,
  result: Type.Optional(Type.Union([Type.Object({}, keptAsText), Type.Null()])),
  error: text,
  artifacts: Type.Optional(
    Type.Union([
      Type.Array(Type.Object({ name: text, url: text, contentBase64: text, contentType: text })),
      Type.Null(),
    ]),
  ),
  leaseToken: integer,
};

export const ResultBody = Type.Object({ ...resultFields, status: Type.String({ minLength: 1 }) });
export const ResultItem = Type.Object({ ...resultFields, taskId: text });
export const ResultBatchBody = Type.Object({ results: Type.Array(ResultItem, { minItems: 1 }) });

export const CleanUpBody = Type.Object({ limit: integer, before: text });

const texts = Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()]));

/** A field that is not known is refused: passed over, it could make a key that may do too much. */
export const CreateApiKeyBody = Type.Object(
  {
    name: Type.String(),
    scopes: texts,
    eventTypes: texts,
    role: text,
    expiresAt: text,
    expiresInSeconds: integer,
  },
  { additionalProperties: false },
);

export type BodyOf<Schema extends TObject> = Static<Schema>;
