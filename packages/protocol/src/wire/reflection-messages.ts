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

export type ServerReflectionRequest = ReturnType<typeof newServerReflectionRequest>;

export function newServerReflectionRequest() {
  return {
    host: "",
    messageRequest: { case: undefined } as ServerReflectionRequestMessageRequest,
  };
}

export function writeServerReflectionRequest(
  message: ServerReflectionRequest,
  writer: WireWriter,
): void {
  writer.stringField(10, message.host);
  if (message.messageRequest.case === "fileByFilename")
    writer.stringMember(26, message.messageRequest.value);
  else if (message.messageRequest.case === "fileContainingSymbol")
    writer.stringMember(34, message.messageRequest.value);
  else if (message.messageRequest.case === "fileContainingExtension")
    writer.messageMember(42, 1, writeExtensionRequest, message.messageRequest.value);
  else if (message.messageRequest.case === "allExtensionNumbersOfType")
    writer.stringMember(50, message.messageRequest.value);
  else if (message.messageRequest.case === "listServices")
    writer.stringMember(58, message.messageRequest.value);
}

export function readServerReflectionRequest(reader: WireReader): ServerReflectionRequest {
  const message = newServerReflectionRequest();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.host = reader.string();
    else if (tag === 26)
      message.messageRequest = { case: "fileByFilename", value: reader.string() };
    else if (tag === 34)
      message.messageRequest = { case: "fileContainingSymbol", value: reader.string() };
    else if (tag === 42)
      message.messageRequest = {
        case: "fileContainingExtension",
        value: reader.message(readExtensionRequest),
      };
    else if (tag === 50)
      message.messageRequest = { case: "allExtensionNumbersOfType", value: reader.string() };
    else if (tag === 58) message.messageRequest = { case: "listServices", value: reader.string() };
    else reader.skip(tag);
  }
  return message;
}

export type ExtensionRequest = ReturnType<typeof newExtensionRequest>;

export function newExtensionRequest() {
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
    if (tag === 10) message.containingType = reader.string();
    else if (tag === 16) message.extensionNumber = reader.int32();
    else reader.skip(tag);
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

export function writeServerReflectionResponse(
  message: ServerReflectionResponse,
  writer: WireWriter,
): void {
  writer.stringField(10, message.validHost);
  if (message.originalRequest !== undefined)
    writer.messageMember(18, 2, writeServerReflectionRequest, message.originalRequest);
  if (message.messageResponse.case === "fileDescriptorResponse")
    writer.messageMember(34, 2, writeFileDescriptorResponse, message.messageResponse.value);
  else if (message.messageResponse.case === "allExtensionNumbersResponse")
    writer.messageMember(42, 2, writeExtensionNumberResponse, message.messageResponse.value);
  else if (message.messageResponse.case === "listServicesResponse")
    writer.messageMember(50, 2, writeListServiceResponse, message.messageResponse.value);
  else if (message.messageResponse.case === "errorResponse")
    writer.messageMember(58, 1, writeErrorResponse, message.messageResponse.value);
}

export interface FileDescriptorResponse {
  /** Serialized FileDescriptorProto messages: the file asked for, and those it imports. */
  fileDescriptorProto: WireBytes[];
}

export function writeFileDescriptorResponse(
  message: FileDescriptorResponse,
  writer: WireWriter,
): void {
  for (const each of message.fileDescriptorProto) writer.bytesMember(10, each);
}

export interface ExtensionNumberResponse {
  baseTypeName: string;
  extensionNumber: number[];
}

export function writeExtensionNumberResponse(
  message: ExtensionNumberResponse,
  writer: WireWriter,
): void {
  writer.stringField(10, message.baseTypeName);
  writer.int32sField(18, message.extensionNumber);
}

export interface ListServiceResponse {
  service: ServiceResponse[];
}

export function writeListServiceResponse(message: ListServiceResponse, writer: WireWriter): void {
  for (const each of message.service) writer.messageMember(10, 1, writeServiceResponse, each);
}

export interface ServiceResponse {
  name: string;
}

export function writeServiceResponse(message: ServiceResponse, writer: WireWriter): void {
  writer.stringField(10, message.name);
}

export interface ErrorResponse {
  /** A gRPC status code. */
  errorCode: number;
  errorMessage: string;
}

export function writeErrorResponse(message: ErrorResponse, writer: WireWriter): void {
  writer.int32Field(8, message.errorCode);
  writer.stringField(18, message.errorMessage);
}
