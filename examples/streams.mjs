/**
 * One task over the streams, with the official gRPC library: a producer creates it, a worker gets it
 * and completes it.
 *
 *   node examples/streams.mjs [address] [token]
 */
import { join } from "node:path";
import { credentials, makeGenericClientConstructor } from "@grpc/grpc-js";
import protobuf from "protobufjs";

const [address = "127.0.0.1:9091", token = "dev-token"] = process.argv.slice(2);

const producer = openStream("producerpb", "ProducerStream");
await producer.ask({ hello: { token } });
const payload = Buffer.from('{"image":"cat.png","width":320}');
const { createAck } = await producer.ask({ create: { seq: 1, command: "resize", payload } });
console.log(`created ${createAck.taskId}`);
producer.end();

const worker = openStream("workerpb", "WorkerStream");
await worker.ask({ hello: { token, workerId: "example" } });
const { task } = (await worker.ask({ ready: { commands: ["resize"], leaseSeconds: 60 } })).task;
console.log(`got ${task.id} ${task.payload}`);
const resultJson = Buffer.from('{"url":"cat-320.png"}');
const result = { taskId: task.id, status: "COMPLETED", resultJson };
console.log(`completed ${(await worker.ask({ result })).resultAck.ok}`);
worker.end();

/** A stream on which every event has one answer. */
function openStream(space, service) {
  const folder = join(import.meta.dirname, "../proto");
  const root = new protobuf.Root();
  root.resolvePath = (_origin, file) => join(folder, file);
  const method = root.loadSync(`${space}.proto`).lookupService(`${space}.${service}`)
    .methods.Stream;
  const { resolvedRequestType: request, resolvedResponseType: response } = method.resolve();
  const Client = makeGenericClientConstructor({
    Stream: {
      path: `/${space}.${service}/Stream`,
      requestStream: true,
      responseStream: true,
      requestSerialize: (event) => Buffer.from(request.encode(request.fromObject(event)).finish()),
      responseDeserialize: (bytes) => response.toObject(response.decode(bytes)),
    },
  });
  const client = new Client(address, credentials.createInsecure());
  const stream = client.Stream();
  const replies = stream[Symbol.asyncIterator]();
  return {
    ask: async (event) => {
      stream.write(event);
      return (await replies.next()).value;
    },
    end: () => {
      stream.end();
      client.close();
    },
  };
}
