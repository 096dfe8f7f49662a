import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:http2";
import { join } from "node:path";
import { test } from "node:test";
import { encodeMessage, fileDescriptors, reflection } from "@codeq/protocol/wire";
import * as grpc from "@grpc/grpc-js";
import protobuf from "protobufjs";
import descriptor from "protobufjs/ext/descriptor/index.js";
import { systemClock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createGrpcServer, grpcLimits } from "./grpc-server.ts";
import { reflectionMethods } from "./reflection.ts";

type Question = reflection.ServerReflectionRequestMessageRequest;
type Answer = reflection.ServerReflectionResponseMessageResponse;

const proto = protobuf.loadSync(
  join(import.meta.dirname, "../../../../../proto/grpc/reflection/v1/reflection.proto"),
);
const responses = proto.lookupType("grpc.reflection.v1.ServerReflectionResponse");
type Decoded = Readonly<Record<string, unknown>>;

/** Decoded by an independent implementation, with the choices as our messages have them. */
function responseOf(bytes: Buffer): reflection.ServerReflectionResponse {
  const all = responses.toObject(responses.decode(bytes), { arrays: true, oneofs: true });
  const { validHost, originalRequest } = all as Decoded;
  const { host } = originalRequest as Decoded;
  return {
    validHost,
    originalRequest: { host, messageRequest: chosen(originalRequest as Decoded, "messageRequest") },
    messageResponse: chosen(all, "messageResponse"),
  } as reflection.ServerReflectionResponse;
}

function chosen(message: Decoded, oneof: string): { case: string; value: unknown } {
  const name = String(message[oneof]);
  return { case: name, value: message[name] };
}

const paths = ["v1", "v1alpha"].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
);

async function setup() {
  const server = createGrpcServer({
    methods: reflectionMethods(["workerpb.WorkerStream", "grpc.health.v1.Health"]),
    limits: grpcLimits,
    keepalive: { intervalMs: 0, timeoutMs: 10_000 },
    logger: createLogger({ level: "error", format: "text", write: () => {}, nowMs: () => 0 }),
    clock: systemClock,
  });
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const ask = async (messageRequest: Question, path = paths[0]!): Promise<Answer> => {
    const call = client.makeBidiStreamRequest(
      path,
      (request: reflection.ServerReflectionRequest) =>
        encodeMessage(reflection.writeServerReflectionRequest, request),
      responseOf,
    );
    const request = { host: "some.host", messageRequest };
    call.write(request);
    call.end();
    const received: reflection.ServerReflectionResponse[] = [];
    for await (const response of call) received.push(response);
    assert.equal(received.length, 1);
    assert.equal(received[0]!.validHost, "some.host");
    assert.deepEqual(received[0]!.originalRequest, request);
    return received[0]!.messageResponse;
  };
  const dispose = async () => {
    client.close();
    await server.close(0);
  };
  return { ask, port, [Symbol.asyncDispose]: dispose };
}

/** The types of an answer, as an independent implementation understands its bytes. */
function rootOf(answer: Answer): protobuf.Root {
  assert.equal(answer.case, "fileDescriptorResponse");
  const file = answer.value.fileDescriptorProto.map((bytes) =>
    descriptor.FileDescriptorProto.decode(bytes as Uint8Array),
  );
  // Added to the class by the extension, which its types do not say.
  const { fromDescriptor } = protobuf.Root as unknown as {
    fromDescriptor(files: unknown): protobuf.Root;
  };
  const root = fromDescriptor(descriptor.FileDescriptorSet.create({ file }));
  root.resolveAll();
  return root;
}

test("both versions list the services that are offered, and themselves", async () => {
  await using world = await setup();
  for (const path of paths) {
    const answer = await world.ask({ case: "listServices", value: "" }, path);
    assert.deepEqual(answer, {
      case: "listServicesResponse",
      value: {
        service: [
          { name: "grpc.health.v1.Health" },
          { name: "grpc.reflection.v1.ServerReflection" },
          { name: "grpc.reflection.v1alpha.ServerReflection" },
          { name: "workerpb.WorkerStream" },
        ],
      },
    });
  }
});

test("a symbol leads to its file and the files that it needs", async () => {
  await using world = await setup();
  for (const symbol of ["workerpb.WorkerStream", "workerpb.WorkerStream.Stream", "workerpb.Task"]) {
    const root = rootOf(await world.ask({ case: "fileContainingSymbol", value: symbol }));
    const task = root.lookupType("workerpb.Task");
    assert.equal(task.fields["lease_token"]?.id, 100);
    assert.ok(root.lookupType("google.protobuf.Timestamp"));
    const stream = root.lookupService("workerpb.WorkerStream").methods["Stream"];
    assert.equal(stream?.requestStream, true);
    assert.equal(stream?.responseStream, true);
  }
});

test("every file is found by its name, and describes what its .proto says", async () => {
  await using world = await setup();
  for (const { name, symbols } of fileDescriptors) {
    const root = rootOf(await world.ask({ case: "fileByFilename", value: name }));
    for (const symbol of symbols) assert.ok(root.lookup(symbol) !== null, symbol);
  }
  const answer = await world.ask({ case: "fileByFilename", value: "grpc/health/v1/health.proto" });
  const status = rootOf(answer).lookupEnum("grpc.health.v1.HealthCheckResponse.ServingStatus");
  assert.deepEqual(status.values, { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 });
});

test("what does not exist is not found", async () => {
  await using world = await setup();
  const extension = { containingType: "workerpb.Task", extensionNumber: 7 };
  const questions: readonly Question[] = [
    { case: "fileByFilename", value: "nope.proto" },
    { case: "fileContainingSymbol", value: "workerpb.Nope" },
    { case: "fileContainingSymbol", value: "" },
    { case: "fileContainingExtension", value: extension },
    { case: "allExtensionNumbersOfType", value: "workerpb.Nope" },
  ];
  for (const question of questions) {
    const answer = await world.ask(question);
    assert.equal(answer.case, "errorResponse");
    assert.equal(answer.value.errorCode, grpc.status.NOT_FOUND);
  }
});

test("a known type has no extensions", async () => {
  await using world = await setup();
  const answer = await world.ask({ case: "allExtensionNumbersOfType", value: "workerpb.Task" });
  assert.deepEqual(answer, {
    case: "allExtensionNumbersResponse",
    value: { baseTypeName: "workerpb.Task", extensionNumber: [] },
  });
});

test("a question that is none ends the call", async () => {
  await using world = await setup();
  await assert.rejects(
    () => world.ask({ case: undefined }),
    (error: grpc.ServiceError) => error.code === grpc.status.INVALID_ARGUMENT,
  );
});

test("a client that asks and asks gets its answers when it reads", async () => {
  await using world = await setup();
  const session = connect(`http://127.0.0.1:${world.port}`);
  const request = session.request({
    ":method": "POST",
    ":path": paths[0]!,
    "content-type": "application/grpc",
  });
  const question = encodeMessage(reflection.writeServerReflectionRequest, {
    host: "",
    messageRequest: { case: "fileByFilename", value: "workerpb.proto" },
  });
  const trailers = once(request, "trailers");
  const framed = Buffer.concat([Buffer.from([0, 0, 0, 0, question.length]), question]);
  request.end(Buffer.concat(Array.from({ length: 1000 }, () => framed)));
  await once(request, "response");
  request.resume();
  assert.equal((await trailers)[0]["grpc-status"], String(grpc.status.OK));
  session.destroy();
});
