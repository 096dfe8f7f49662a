/**
 * Generated from proto/etcd.proto by scripts/gen-codecs.ts. To change it, change that file and run
 * `npm run gen`.
 */
import type { WireReader } from "./reader.ts";
import type { WireBytes, WireUint64, WireWriter } from "./writer.ts";

export type ResponseHeader = ReturnType<typeof newResponseHeader>;

export function newResponseHeader() {
  return {
    memberId: 0 as WireUint64,
    revision: 0 as WireUint64,
  };
}

export function readResponseHeader(reader: WireReader): ResponseHeader {
  const message = newResponseHeader();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 16) message.memberId = reader.uint64();
    else if (tag === 24) message.revision = reader.uint64();
    else reader.skip(tag);
  }
  return message;
}

export type KeyValue = ReturnType<typeof newKeyValue>;

export function newKeyValue() {
  return {
    key: "" as WireBytes,
    modRevision: 0 as WireUint64,
    value: "" as WireBytes,
  };
}

export function readKeyValue(reader: WireReader): KeyValue {
  const message = newKeyValue();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.key = reader.bytes();
    else if (tag === 24) message.modRevision = reader.uint64();
    else if (tag === 42) message.value = reader.bytes();
    else reader.skip(tag);
  }
  return message;
}

export type RangeRequest = ReturnType<typeof newRangeRequest>;

export function newRangeRequest() {
  return {
    key: "" as WireBytes,
    rangeEnd: "" as WireBytes,
    limit: 0 as WireUint64,
    serializable: false,
    keysOnly: false,
  };
}

export function writeRangeRequest(message: RangeRequest, writer: WireWriter): void {
  writer.bytesField(10, message.key);
  writer.bytesField(18, message.rangeEnd);
  writer.uint64Field(24, message.limit);
  writer.boolField(56, message.serializable);
  writer.boolField(64, message.keysOnly);
}

export type RangeResponse = ReturnType<typeof newRangeResponse>;

export function newRangeResponse() {
  return {
    header: undefined as ResponseHeader | undefined,
    kvs: [] as KeyValue[],
  };
}

export function readRangeResponse(reader: WireReader): RangeResponse {
  const message = newRangeResponse();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.header = reader.message(readResponseHeader);
    else if (tag === 18) {
      reader.countElement();
      message.kvs.push(reader.message(readKeyValue));
    } else reader.skip(tag);
  }
  return message;
}

export interface PutRequest {
  key: WireBytes;
  value: WireBytes;
}

export function writePutRequest(message: PutRequest, writer: WireWriter): void {
  writer.bytesField(10, message.key);
  writer.bytesField(18, message.value);
}

export interface DeleteRangeRequest {
  key: WireBytes;
  rangeEnd: WireBytes;
}

export function writeDeleteRangeRequest(message: DeleteRangeRequest, writer: WireWriter): void {
  writer.bytesField(10, message.key);
  writer.bytesField(18, message.rangeEnd);
}

export type RequestOp =
  | { case: "requestRange"; value: RangeRequest }
  | { case: "requestPut"; value: PutRequest }
  | { case: "requestDeleteRange"; value: DeleteRangeRequest }
  | { case: undefined; value?: undefined };

export function writeRequestOp(message: RequestOp, writer: WireWriter): void {
  if (message.case === "requestRange")
    writer.messageMember(10, 2, writeRangeRequest, message.value);
  else if (message.case === "requestPut")
    writer.messageMember(18, 2, writePutRequest, message.value);
  else if (message.case === "requestDeleteRange")
    writer.messageMember(26, 2, writeDeleteRangeRequest, message.value);
}

export type ResponseOp =
  | { case: "responseRange"; value: RangeResponse }
  | { case: undefined; value?: undefined };

export function readResponseOp(reader: WireReader): ResponseOp {
  let message: ResponseOp = { case: undefined };
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message = { case: "responseRange", value: reader.message(readRangeResponse) };
    else reader.skip(tag);
  }
  return message;
}

export const compareResult = {
  EQUAL: 0,
  GREATER: 1,
} as const;

export const compareTarget = {
  VERSION: 0,
  MOD: 2,
  VALUE: 3,
} as const;

/** A missing revision is 0, which is the revision of a key that does not exist. */
export type Compare = ReturnType<typeof newCompare>;

export function newCompare() {
  return {
    result: 0,
    target: 0,
    key: "" as WireBytes,
    modRevision: 0 as WireUint64,
    value: "" as WireBytes,
  };
}

export function writeCompare(message: Compare, writer: WireWriter): void {
  writer.int32Field(8, message.result);
  writer.int32Field(16, message.target);
  writer.bytesField(26, message.key);
  writer.uint64Field(48, message.modRevision);
  writer.bytesField(58, message.value);
}

export interface TxnRequest {
  compare: Compare[];
  success: RequestOp[];
  failure: RequestOp[];
}

export function writeTxnRequest(message: TxnRequest, writer: WireWriter): void {
  for (const each of message.compare) writer.messageMember(10, 2, writeCompare, each);
  for (const each of message.success) writer.messageMember(18, 1, writeRequestOp, each);
  for (const each of message.failure) writer.messageMember(26, 1, writeRequestOp, each);
}

export type TxnResponse = ReturnType<typeof newTxnResponse>;

export function newTxnResponse() {
  return {
    header: undefined as ResponseHeader | undefined,
    succeeded: false,
    responses: [] as ResponseOp[],
  };
}

export function readTxnResponse(reader: WireReader): TxnResponse {
  const message = newTxnResponse();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.header = reader.message(readResponseHeader);
    else if (tag === 16) message.succeeded = reader.bool();
    else if (tag === 26) {
      reader.countElement();
      message.responses.push(reader.message(readResponseOp));
    } else reader.skip(tag);
  }
  return message;
}

export interface CompactionRequest {
  revision: WireUint64;
}

export function writeCompactionRequest(message: CompactionRequest, writer: WireWriter): void {
  writer.uint64Field(8, message.revision);
}

export interface WatchCreateRequest {
  key: WireBytes;
  rangeEnd: WireBytes;
}

export function writeWatchCreateRequest(message: WatchCreateRequest, writer: WireWriter): void {
  writer.bytesField(10, message.key);
  writer.bytesField(18, message.rangeEnd);
}

export type WatchRequest =
  | { case: "createRequest"; value: WatchCreateRequest }
  | { case: undefined; value?: undefined };

export function writeWatchRequest(message: WatchRequest, writer: WireWriter): void {
  if (message.case === "createRequest")
    writer.messageMember(10, 2, writeWatchCreateRequest, message.value);
}

export type Event = ReturnType<typeof newEvent>;

export function newEvent() {
  return {
    kv: undefined as KeyValue | undefined,
  };
}

export function readEvent(reader: WireReader): Event {
  const message = newEvent();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 18) message.kv = reader.message(readKeyValue);
    else reader.skip(tag);
  }
  return message;
}

export type WatchResponse = ReturnType<typeof newWatchResponse>;

export function newWatchResponse() {
  return {
    created: false,
    canceled: false,
    cancelReason: "",
    events: [] as Event[],
  };
}

export function readWatchResponse(reader: WireReader): WatchResponse {
  const message = newWatchResponse();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 24) message.created = reader.bool();
    else if (tag === 32) message.canceled = reader.bool();
    else if (tag === 50) message.cancelReason = reader.string();
    else if (tag === 90) {
      reader.countElement();
      message.events.push(reader.message(readEvent));
    } else reader.skip(tag);
  }
  return message;
}

export type Member = ReturnType<typeof newMember>;

export function newMember() {
  return {
    id: 0 as WireUint64,
    name: "",
    peerUrls: [] as string[],
    clientUrls: [] as string[],
    isLearner: false,
  };
}

export function readMember(reader: WireReader): Member {
  const message = newMember();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 8) message.id = reader.uint64();
    else if (tag === 18) message.name = reader.string();
    else if (tag === 26) {
      reader.countElement();
      message.peerUrls.push(reader.string());
    } else if (tag === 34) {
      reader.countElement();
      message.clientUrls.push(reader.string());
    } else if (tag === 40) message.isLearner = reader.bool();
    else reader.skip(tag);
  }
  return message;
}

export interface MemberListRequest {
  linearizable: boolean;
}

export function writeMemberListRequest(message: MemberListRequest, writer: WireWriter): void {
  writer.boolField(8, message.linearizable);
}

export interface MemberAddRequest {
  peerUrls: string[];
  isLearner: boolean;
}

export function writeMemberAddRequest(message: MemberAddRequest, writer: WireWriter): void {
  for (const each of message.peerUrls) writer.stringMember(10, each);
  writer.boolField(16, message.isLearner);
}

/** For the calls that name a member by its id: MemberRemove, MemberPromote and MoveLeader. */
export interface MemberIdRequest {
  id: WireUint64;
}

export function writeMemberIdRequest(message: MemberIdRequest, writer: WireWriter): void {
  writer.uint64Field(8, message.id);
}

/** The answer of every call that changes or lists the members. */
export type MemberListResponse = ReturnType<typeof newMemberListResponse>;

export function newMemberListResponse() {
  return {
    header: undefined as ResponseHeader | undefined,
    members: [] as Member[],
  };
}

export function readMemberListResponse(reader: WireReader): MemberListResponse {
  const message = newMemberListResponse();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.header = reader.message(readResponseHeader);
    else if (tag === 18) {
      reader.countElement();
      message.members.push(reader.message(readMember));
    } else reader.skip(tag);
  }
  return message;
}

export type StatusResponse = ReturnType<typeof newStatusResponse>;

export function newStatusResponse() {
  return {
    header: undefined as ResponseHeader | undefined,
    version: "",
    dbSize: 0 as WireUint64,
    leader: 0 as WireUint64,
    raftIndex: 0 as WireUint64,
    raftAppliedIndex: 0 as WireUint64,
    errors: [] as string[],
    dbSizeInUse: 0 as WireUint64,
    isLearner: false,
    dbSizeQuota: 0 as WireUint64,
  };
}

export function readStatusResponse(reader: WireReader): StatusResponse {
  const message = newStatusResponse();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.header = reader.message(readResponseHeader);
    else if (tag === 18) message.version = reader.string();
    else if (tag === 24) message.dbSize = reader.uint64();
    else if (tag === 32) message.leader = reader.uint64();
    else if (tag === 40) message.raftIndex = reader.uint64();
    else if (tag === 56) message.raftAppliedIndex = reader.uint64();
    else if (tag === 66) {
      reader.countElement();
      message.errors.push(reader.string());
    } else if (tag === 72) message.dbSizeInUse = reader.uint64();
    else if (tag === 80) message.isLearner = reader.bool();
    else if (tag === 96) message.dbSizeQuota = reader.uint64();
    else reader.skip(tag);
  }
  return message;
}

export const alarmRequestAction = {
  GET: 0,
  DEACTIVATE: 2,
} as const;

export const alarmRequestAlarm = {
  NONE: 0,
  NOSPACE: 1,
} as const;

/** Finds alarms, or ends the alarm of one member: action DEACTIVATE. */
export interface AlarmRequest {
  action: number;
  memberId: WireUint64;
  alarm: number;
}

export function writeAlarmRequest(message: AlarmRequest, writer: WireWriter): void {
  writer.int32Field(8, message.action);
  writer.uint64Field(16, message.memberId);
  writer.int32Field(24, message.alarm);
}

export type AlarmMember = ReturnType<typeof newAlarmMember>;

export function newAlarmMember() {
  return {
    memberId: 0 as WireUint64,
  };
}

export function readAlarmMember(reader: WireReader): AlarmMember {
  const message = newAlarmMember();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 8) message.memberId = reader.uint64();
    else reader.skip(tag);
  }
  return message;
}

export type AlarmResponse = ReturnType<typeof newAlarmResponse>;

export function newAlarmResponse() {
  return {
    header: undefined as ResponseHeader | undefined,
    alarms: [] as AlarmMember[],
  };
}

export function readAlarmResponse(reader: WireReader): AlarmResponse {
  const message = newAlarmResponse();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.header = reader.message(readResponseHeader);
    else if (tag === 18) {
      reader.countElement();
      message.alarms.push(reader.message(readAlarmMember));
    } else reader.skip(tag);
  }
  return message;
}
