/**
 * grpc.reflection.v1 and v1alpha, which have the same messages: tools such as grpcurl use them to list the
 * services. Our files have no extensions, so questions about extensions find nothing.
 */
import {
  decodeMessage,
  type FileDescriptor,
  fileDescriptors,
  reflection,
} from "@codeq/protocol/wire";
import type { GrpcHandler, GrpcMethods } from "./grpc-server.ts";
import type { GrpcStream } from "./grpc-stream.ts";
import { grpcCodes } from "./status.ts";

const ownServices: readonly string[] = [
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
];

/** Open at the same time. Reflection needs no token, and tools ask one question per stream. */
const streamsMax = 256;

/** `services` are those besides reflection itself. */
export function reflectionMethods(services: readonly string[]): GrpcMethods {
  const listed = [...services, ...ownServices].sort();
  let open = 0;
  const handler: GrpcHandler = (stream) => {
    if (open >= streamsMax) {
      stream.end("RESOURCE_EXHAUSTED", "too many are asking");
      return;
    }
    open += 1;
    stream.onClosed(() => {
      open -= 1;
    });
    reflect(stream, listed);
  };
  return new Map(ownServices.map((service) => [`/${service}/ServerReflectionInfo`, handler]));
}

function reflect(stream: GrpcStream, services: readonly string[]): void {
  stream.onMessage((bytes) => {
    const request = decodeMessage(reflection.readServerReflectionRequest, bytes);
    const answer = answerOf(request.messageRequest, services);
    if (answer === undefined) {
      stream.end("INVALID_ARGUMENT", "invalid MessageRequest");
      return;
    }
    const isRead = stream.sendMessage(reflection.writeServerReflectionResponse, {
      validHost: request.host,
      originalRequest: request,
      messageResponse: answer,
    });
    // Reflection needs no token, and a normal client reads its answers.
    if (!isRead) stream.end("RESOURCE_EXHAUSTED", "the answers are not read");
  });
  stream.onHalfClose(() => stream.end("OK"));
  stream.onGoingAway(() => stream.end("UNAVAILABLE", "the server is shutting down"));
}

type Question = reflection.ServerReflectionRequestMessageRequest;
type Answer = reflection.ServerReflectionResponseMessageResponse;

function answerOf(question: Question, services: readonly string[]): Answer | undefined {
  switch (question.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return fileAnswer(fileCalled(question.value), `file not found: ${question.value}`);
    case "fileContainingSymbol":
      return fileAnswer(fileWith(question.value), `symbol not found: ${question.value}`);
    case "fileContainingExtension":
      return notFound(
        `extension ${question.value.extensionNumber} of ${question.value.containingType} not found`,
      );
    case "allExtensionNumbersOfType":
      if (fileWith(question.value) === undefined)
        return notFound(`type not found: ${question.value}`);
      return {
        case: "allExtensionNumbersResponse",
        value: { baseTypeName: question.value, extensionNumber: [] },
      };
    case undefined:
      return undefined;
  }
}

function fileAnswer(file: FileDescriptor | undefined, orElse: string): Answer {
  if (file === undefined) return notFound(orElse);
  const files = [file, ...file.imports.flatMap((name) => fileCalled(name) ?? [])];
  return {
    case: "fileDescriptorResponse",
    value: { fileDescriptorProto: files.map(({ base64 }) => Buffer.from(base64, "base64")) },
  };
}

function fileCalled(name: string): FileDescriptor | undefined {
  return fileDescriptors.find((file) => file.name === name);
}

function fileWith(symbol: string): FileDescriptor | undefined {
  return fileDescriptors.find(({ symbols }) => symbols.includes(symbol));
}

function notFound(errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode: grpcCodes.NOT_FOUND, errorMessage } };
}
