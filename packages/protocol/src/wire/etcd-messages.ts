/**
 * Generated from proto/etcd.proto by scripts/gen-codecs.ts. To change it, change that file and run
 * `npm run gen`.
 */
import type { WireReader } from "./reader.ts";
import type { WireBytes, WireUint64, WireWriter } from "./writer.ts";

export interface ResponseHeader {
  memberId: WireUint64;
  revision: WireUint64;
}

export function newResponseHeader(): ResponseHeader {
  return {
    memberId: 0,
    revision: 0,
  };
}

export function readResponseHeader(reader: WireReader): ResponseHeader {
  const message = newResponseHeader();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 16:
        message.memberId = reader.uint64();
        break;
      case 24:
        message.revision = reader.uint64();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface KeyValue {
  key: WireBytes;
  modRevision: WireUint64;
  value: WireBytes;
}

export function newKeyValue(): KeyValue {
  return {
    key: "",
    modRevision: 0,
    value: "",
  };
}

export function readKeyValue(reader: WireReader): KeyValue {
  const message = newKeyValue();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.key = reader.bytes();
        break;
      case 24:
        message.modRevision = reader.uint64();
        break;
      case 42:
        message.value = reader.bytes();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface RangeRequest {
  key: WireBytes;
  rangeEnd: WireBytes;
  limit: WireUint64;
  serializable: boolean;
  keysOnly: boolean;
}

export function newRangeRequest(): RangeRequest {
  return {
    key: "",
    rangeEnd: "",
    limit: 0,
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

export interface RangeResponse {
  header: ResponseHeader | undefined;
  kvs: KeyValue[];
}

export function newRangeResponse(): RangeResponse {
  return {
    header: undefined,
    kvs: [],
  };
}

export function readRangeResponse(reader: WireReader): RangeResponse {
  const message = newRangeResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.header = reader.message(readResponseHeader);
        break;
      case 18:
        reader.countElement();
        message.kvs.push(reader.message(readKeyValue));
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface PutRequest {
  key: WireBytes;
  value: WireBytes;
}

export function newPutRequest(): PutRequest {
  return {
    key: "",
    value: "",
  };
}

export function writePutRequest(message: PutRequest, writer: WireWriter): void {
  writer.bytesField(10, message.key);
  writer.bytesField(18, message.value);
}

export interface DeleteRangeRequest {
  key: WireBytes;
  rangeEnd: WireBytes;
}

export function newDeleteRangeRequest(): DeleteRangeRequest {
  return {
    key: "",
    rangeEnd: "",
  };
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
  switch (message.case) {
    case "requestRange":
      writer.messageMember(10, 2, writeRangeRequest, message.value);
      break;
    case "requestPut":
      writer.messageMember(18, 2, writePutRequest, message.value);
      break;
    case "requestDeleteRange":
      writer.messageMember(26, 2, writeDeleteRangeRequest, message.value);
      break;
    case undefined:
      break;
  }
}

export type ResponseOp =
  | { case: "responseRange"; value: RangeResponse }
  | { case: undefined; value?: undefined };

export function readResponseOp(reader: WireReader): ResponseOp {
  let message: ResponseOp = { case: undefined };
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message = { case: "responseRange", value: reader.message(readRangeResponse) };
        break;
      default:
        reader.skip(tag);
    }
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
export interface Compare {
  result: number;
  target: number;
  key: WireBytes;
  modRevision: WireUint64;
  value: WireBytes;
}

export function newCompare(): Compare {
  return {
    result: 0,
    target: 0,
    key: "",
    modRevision: 0,
    value: "",
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

export function newTxnRequest(): TxnRequest {
  return {
    compare: [],
    success: [],
    failure: [],
  };
}

export function writeTxnRequest(message: TxnRequest, writer: WireWriter): void {
  for (const each of message.compare) writer.messageMember(10, 2, writeCompare, each);
  for (const each of message.success) writer.messageMember(18, 1, writeRequestOp, each);
  for (const each of message.failure) writer.messageMember(26, 1, writeRequestOp, each);
}

export interface TxnResponse {
  header: ResponseHeader | undefined;
  succeeded: boolean;
  responses: ResponseOp[];
}

export function newTxnResponse(): TxnResponse {
  return {
    header: undefined,
    succeeded: false,
    responses: [],
  };
}

export function readTxnResponse(reader: WireReader): TxnResponse {
  const message = newTxnResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.header = reader.message(readResponseHeader);
        break;
      case 16:
        message.succeeded = reader.bool();
        break;
      case 26:
        reader.countElement();
        message.responses.push(reader.message(readResponseOp));
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface CompactionRequest {
  revision: WireUint64;
}

export function newCompactionRequest(): CompactionRequest {
  return {
    revision: 0,
  };
}

export function writeCompactionRequest(message: CompactionRequest, writer: WireWriter): void {
  writer.uint64Field(8, message.revision);
}

export interface WatchCreateRequest {
  key: WireBytes;
  rangeEnd: WireBytes;
}

export function newWatchCreateRequest(): WatchCreateRequest {
  return {
    key: "",
    rangeEnd: "",
  };
}

export function writeWatchCreateRequest(message: WatchCreateRequest, writer: WireWriter): void {
  writer.bytesField(10, message.key);
  writer.bytesField(18, message.rangeEnd);
}

export type WatchRequest =
  | { case: "createRequest"; value: WatchCreateRequest }
  | { case: undefined; value?: undefined };

export function writeWatchRequest(message: WatchRequest, writer: WireWriter): void {
  switch (message.case) {
    case "createRequest":
      writer.messageMember(10, 2, writeWatchCreateRequest, message.value);
      break;
    case undefined:
      break;
  }
}

export interface Event {
  kv: KeyValue | undefined;
}

export function newEvent(): Event {
  return {
    kv: undefined,
  };
}

export function readEvent(reader: WireReader): Event {
  const message = newEvent();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 18:
        message.kv = reader.message(readKeyValue);
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface WatchResponse {
  created: boolean;
  canceled: boolean;
  cancelReason: string;
  events: Event[];
}

export function newWatchResponse(): WatchResponse {
  return {
    created: false,
    canceled: false,
    cancelReason: "",
    events: [],
  };
}

export function readWatchResponse(reader: WireReader): WatchResponse {
  const message = newWatchResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 24:
        message.created = reader.bool();
        break;
      case 32:
        message.canceled = reader.bool();
        break;
      case 50:
        message.cancelReason = reader.string();
        break;
      case 90:
        reader.countElement();
        message.events.push(reader.message(readEvent));
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface Member {
  id: WireUint64;
  name: string;
  peerUrls: string[];
  clientUrls: string[];
  isLearner: boolean;
}

export function newMember(): Member {
  return {
    id: 0,
    name: "",
    peerUrls: [],
    clientUrls: [],
    isLearner: false,
  };
}

export function readMember(reader: WireReader): Member {
  const message = newMember();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 8:
        message.id = reader.uint64();
        break;
      case 18:
        message.name = reader.string();
        break;
      case 26:
        reader.countElement();
        message.peerUrls.push(reader.string());
        break;
      case 34:
        reader.countElement();
        message.clientUrls.push(reader.string());
        break;
      case 40:
        message.isLearner = reader.bool();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface MemberListRequest {
  linearizable: boolean;
}

export function newMemberListRequest(): MemberListRequest {
  return {
    linearizable: false,
  };
}

export function writeMemberListRequest(message: MemberListRequest, writer: WireWriter): void {
  writer.boolField(8, message.linearizable);
}

export interface MemberAddRequest {
  peerUrls: string[];
  isLearner: boolean;
}

export function newMemberAddRequest(): MemberAddRequest {
  return {
    peerUrls: [],
    isLearner: false,
  };
}

export function writeMemberAddRequest(message: MemberAddRequest, writer: WireWriter): void {
  for (const each of message.peerUrls) writer.stringMember(10, each);
  writer.boolField(16, message.isLearner);
}

/** For the calls that name a member by its id: MemberRemove and MemberPromote. */
export interface MemberIdRequest {
  id: WireUint64;
}

export function newMemberIdRequest(): MemberIdRequest {
  return {
    id: 0,
  };
}

export function writeMemberIdRequest(message: MemberIdRequest, writer: WireWriter): void {
  writer.uint64Field(8, message.id);
}

/** The answer of every call that changes or lists the members. */
export interface MemberListResponse {
  header: ResponseHeader | undefined;
  members: Member[];
}

export function newMemberListResponse(): MemberListResponse {
  return {
    header: undefined,
    members: [],
  };
}

export function readMemberListResponse(reader: WireReader): MemberListResponse {
  const message = newMemberListResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.header = reader.message(readResponseHeader);
        break;
      case 18:
        reader.countElement();
        message.members.push(reader.message(readMember));
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface StatusResponse {
  header: ResponseHeader | undefined;
  version: string;
  dbSize: WireUint64;
  leader: WireUint64;
  raftIndex: WireUint64;
  raftAppliedIndex: WireUint64;
  errors: string[];
  dbSizeInUse: WireUint64;
  isLearner: boolean;
  dbSizeQuota: WireUint64;
}

export function newStatusResponse(): StatusResponse {
  return {
    header: undefined,
    version: "",
    dbSize: 0,
    leader: 0,
    raftIndex: 0,
    raftAppliedIndex: 0,
    errors: [],
    dbSizeInUse: 0,
    isLearner: false,
    dbSizeQuota: 0,
  };
}

export function readStatusResponse(reader: WireReader): StatusResponse {
  const message = newStatusResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.header = reader.message(readResponseHeader);
        break;
      case 18:
        message.version = reader.string();
        break;
      case 24:
        message.dbSize = reader.uint64();
        break;
      case 32:
        message.leader = reader.uint64();
        break;
      case 40:
        message.raftIndex = reader.uint64();
        break;
      case 56:
        message.raftAppliedIndex = reader.uint64();
        break;
      case 66:
        reader.countElement();
        message.errors.push(reader.string());
        break;
      case 72:
        message.dbSizeInUse = reader.uint64();
        break;
      case 80:
        message.isLearner = reader.bool();
        break;
      case 96:
        message.dbSizeQuota = reader.uint64();
        break;
      default:
        reader.skip(tag);
    }
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

export function newAlarmRequest(): AlarmRequest {
  return {
    action: 0,
    memberId: 0,
    alarm: 0,
  };
}

export function writeAlarmRequest(message: AlarmRequest, writer: WireWriter): void {
  writer.int32Field(8, message.action);
  writer.uint64Field(16, message.memberId);
  writer.int32Field(24, message.alarm);
}

export interface AlarmMember {
  memberId: WireUint64;
}

export function newAlarmMember(): AlarmMember {
  return {
    memberId: 0,
  };
}

export function readAlarmMember(reader: WireReader): AlarmMember {
  const message = newAlarmMember();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 8:
        message.memberId = reader.uint64();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface AlarmResponse {
  header: ResponseHeader | undefined;
  alarms: AlarmMember[];
}

export function newAlarmResponse(): AlarmResponse {
  return {
    header: undefined,
    alarms: [],
  };
}

export function readAlarmResponse(reader: WireReader): AlarmResponse {
  const message = newAlarmResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.header = reader.message(readResponseHeader);
        break;
      case 18:
        reader.countElement();
        message.alarms.push(reader.message(readAlarmMember));
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}
