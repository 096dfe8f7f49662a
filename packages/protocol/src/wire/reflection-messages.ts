/**
 * Generated from proto/grpc/reflection/v1/reflection.proto by scripts/gen-codecs.ts. To change it, change that file and run
 * `npm run gen`.
 */
import type { WireReader } from "./reader.ts";
import type { WireBytes, WireWriter } from "./writer.ts";

export type ServerReflectionRequestMessageRequest =
  | { case: "fileByFilename"; value: string }
  | { case: "fileContainingSymbol"; value: string }
  | { case: "fileContainingExtension"; value: ExtensionRequest }
  | { case: "allExtensionNumbersOfType"; value: string }
  | { case: "listServices"; value: string }
  | { case: undefined; value?: undefined };

export interface ServerReflectionRequest {
  host: string;
  messageRequest: ServerReflectionRequestMessageRequest;
}

export function newServerReflectionRequest(): ServerReflectionRequest {
  return {
    host: "",
    messageRequest: { case: undefined },
  };
}

export function writeServerReflectionRequest(
  message: ServerReflectionRequest,
  writer: WireWriter,
): void {
  writer.stringField(10, message.host);
  switch (message.messageRequest.case) {
    case "fileByFilename":
      writer.stringMember(26, message.messageRequest.value);
      break;
    case "fileContainingSymbol":
      writer.stringMember(34, message.messageRequest.value);
      break;
    case "fileContainingExtension":
      writer.messageMember(42, 1, writeExtensionRequest, message.messageRequest.value);
      break;
    case "allExtensionNumbersOfType":
      writer.stringMember(50, message.messageRequest.value);
      break;
    case "listServices":
      writer.stringMember(58, message.messageRequest.value);
      break;
    case undefined:
      break;
  }
}

export function readServerReflectionRequest(reader: WireReader): ServerReflectionRequest {
  const message = newServerReflectionRequest();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.host = reader.string();
        break;
      case 26:
        message.messageRequest = { case: "fileByFilename", value: reader.string() };
        break;
      case 34:
        message.messageRequest = { case: "fileContainingSymbol", value: reader.string() };
        break;
      case 42:
        message.messageRequest = {
          case: "fileContainingExtension",
          value: reader.message(readExtensionRequest),
        };
        break;
      case 50:
        message.messageRequest = { case: "allExtensionNumbersOfType", value: reader.string() };
        break;
      case 58:
        message.messageRequest = { case: "listServices", value: reader.string() };
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface ExtensionRequest {
  containingType: string;
  extensionNumber: number;
}

export function newExtensionRequest(): ExtensionRequest {
  return {
    containingType: "",
    extensionNumber: 0,
  };
}

export function writeExtensionRequest(message: ExtensionRequest, writer: WireWriter): void {
  writer.stringField(10, message.containingType);
  writer.int32Field(16, message.extensionNumber);
}

export function readExtensionRequest(reader: WireReader): ExtensionRequest {
  const message = newExtensionRequest();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.containingType = reader.string();
        break;
      case 16:
        message.extensionNumber = reader.int32();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export type ServerReflectionResponseMessageResponse =
  | { case: "fileDescriptorResponse"; value: FileDescriptorResponse }
  | { case: "allExtensionNumbersResponse"; value: ExtensionNumberResponse }
  | { case: "listServicesResponse"; value: ListServiceResponse }
  | { case: "errorResponse"; value: ErrorResponse }
  | { case: undefined; value?: undefined };

export interface ServerReflectionResponse {
  validHost: string;
  originalRequest: ServerReflectionRequest | undefined;
  messageResponse: ServerReflectionResponseMessageResponse;
}

export function newServerReflectionResponse(): ServerReflectionResponse {
  return {
    validHost: "",
    originalRequest: undefined,
    messageResponse: { case: undefined },
  };
}

export function writeServerReflectionResponse(
  message: ServerReflectionResponse,
  writer: WireWriter,
): void {
  writer.stringField(10, message.validHost);
  if (message.originalRequest !== undefined)
    writer.messageMember(18, 2, writeServerReflectionRequest, message.originalRequest);
  switch (message.messageResponse.case) {
    case "fileDescriptorResponse":
      writer.messageMember(34, 2, writeFileDescriptorResponse, message.messageResponse.value);
      break;
    case "allExtensionNumbersResponse":
      writer.messageMember(42, 2, writeExtensionNumberResponse, message.messageResponse.value);
      break;
    case "listServicesResponse":
      writer.messageMember(50, 2, writeListServiceResponse, message.messageResponse.value);
      break;
    case "errorResponse":
      writer.messageMember(58, 1, writeErrorResponse, message.messageResponse.value);
      break;
    case undefined:
      break;
  }
}

export function readServerReflectionResponse(reader: WireReader): ServerReflectionResponse {
  const message = newServerReflectionResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.validHost = reader.string();
        break;
      case 18:
        message.originalRequest = reader.message(readServerReflectionRequest);
        break;
      case 34:
        message.messageResponse = {
          case: "fileDescriptorResponse",
          value: reader.message(readFileDescriptorResponse),
        };
        break;
      case 42:
        message.messageResponse = {
          case: "allExtensionNumbersResponse",
          value: reader.message(readExtensionNumberResponse),
        };
        break;
      case 50:
        message.messageResponse = {
          case: "listServicesResponse",
          value: reader.message(readListServiceResponse),
        };
        break;
      case 58:
        message.messageResponse = {
          case: "errorResponse",
          value: reader.message(readErrorResponse),
        };
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface FileDescriptorResponse {
  /** Serialized FileDescriptorProto messages: the file asked for, and those it imports. */
  fileDescriptorProto: WireBytes[];
}

export function newFileDescriptorResponse(): FileDescriptorResponse {
  return {
    fileDescriptorProto: [],
  };
}

export function writeFileDescriptorResponse(
  message: FileDescriptorResponse,
  writer: WireWriter,
): void {
  for (const each of message.fileDescriptorProto) writer.bytesMember(10, each);
}

export function readFileDescriptorResponse(reader: WireReader): FileDescriptorResponse {
  const message = newFileDescriptorResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        reader.countElement();
        message.fileDescriptorProto.push(reader.bytes());
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface ExtensionNumberResponse {
  baseTypeName: string;
  extensionNumber: number[];
}

export function newExtensionNumberResponse(): ExtensionNumberResponse {
  return {
    baseTypeName: "",
    extensionNumber: [],
  };
}

export function writeExtensionNumberResponse(
  message: ExtensionNumberResponse,
  writer: WireWriter,
): void {
  writer.stringField(10, message.baseTypeName);
  writer.int32sField(18, message.extensionNumber);
}

export function readExtensionNumberResponse(reader: WireReader): ExtensionNumberResponse {
  const message = newExtensionNumberResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.baseTypeName = reader.string();
        break;
      case 16:
        reader.countElement();
        message.extensionNumber.push(reader.int32());
        break;
      case 18:
        reader.packedInt32s(message.extensionNumber);
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface ListServiceResponse {
  service: ServiceResponse[];
}

export function newListServiceResponse(): ListServiceResponse {
  return {
    service: [],
  };
}

export function writeListServiceResponse(message: ListServiceResponse, writer: WireWriter): void {
  for (const each of message.service) writer.messageMember(10, 1, writeServiceResponse, each);
}

export function readListServiceResponse(reader: WireReader): ListServiceResponse {
  const message = newListServiceResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        reader.countElement();
        message.service.push(reader.message(readServiceResponse));
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface ServiceResponse {
  name: string;
}

export function newServiceResponse(): ServiceResponse {
  return {
    name: "",
  };
}

export function writeServiceResponse(message: ServiceResponse, writer: WireWriter): void {
  writer.stringField(10, message.name);
}

export function readServiceResponse(reader: WireReader): ServiceResponse {
  const message = newServiceResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 10:
        message.name = reader.string();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}

export interface ErrorResponse {
  /** A gRPC status code. */
  errorCode: number;
  errorMessage: string;
}

export function newErrorResponse(): ErrorResponse {
  return {
    errorCode: 0,
    errorMessage: "",
  };
}

export function writeErrorResponse(message: ErrorResponse, writer: WireWriter): void {
  writer.int32Field(8, message.errorCode);
  writer.stringField(18, message.errorMessage);
}

export function readErrorResponse(reader: WireReader): ErrorResponse {
  const message = newErrorResponse();
  while (reader.more()) {
    const tag = reader.tag();
    switch (tag) {
      case 8:
        message.errorCode = reader.int32();
        break;
      case 18:
        message.errorMessage = reader.string();
        break;
      default:
        reader.skip(tag);
    }
  }
  return message;
}
