/**
 * The FileDescriptorProto of a .proto file, which is what reflection serves. The numbers below are
 * the field numbers of google/protobuf/descriptor.proto.
 */
import { type WireWrite, WireWriter } from "../../packages/protocol/src/wire/writer.ts";
import { camel } from "./message-code.ts";
import type {
  ProtoEnum,
  ProtoField,
  ProtoFile,
  ProtoMessage,
  ProtoMethod,
  ProtoService,
} from "./parse-proto.ts";

export function fileDescriptorBytes(file: ProtoFile): Buffer {
  const writer = new WireWriter();
  writeFile(file, writer);
  return Buffer.from(writer.view());
}

/** Full names of what a tool can ask for: messages, enums, services and methods. */
export function symbolsOf(file: ProtoFile): string[] {
  const names = [
    ...file.messages.flatMap(({ name, enums }) => [
      name,
      ...enums.map((each) => `${name}.${each.name}`),
    ]),
    ...file.services.flatMap(({ name, methods }) => [
      name,
      ...methods.map((method) => `${name}.${method.name}`),
    ]),
  ];
  return names.map((name) => `${file.package}.${name}`);
}

const text = (field: number) => field * 8 + 2;
const number = (field: number) => field * 8;

const types: Readonly<Record<string, number>> = {
  int64: 3,
  uint64: 4,
  int32: 5,
  bool: 8,
  string: 9,
  bytes: 12,
};
const messageType = 11;
const enumType = 14;
const labelOptional = 1;
const labelRepeated = 3;

const writeFile: WireWrite<ProtoFile> = (file, writer) => {
  writer.stringField(text(1), file.name);
  writer.stringField(text(2), file.package);
  for (const name of file.imports) writer.stringMember(text(3), name);
  for (const message of file.messages) {
    writer.messageMember(text(4), 2, (each, to) => writeMessage(file, each, to), message);
  }
  for (const service of file.services) {
    writer.messageMember(text(6), 1, (each, to) => writeService(file, each, to), service);
  }
  writer.messageMember(text(8), 1, (each, to) => to.stringField(text(11), each), file.goPackage);
  writer.stringField(text(12), "proto3");
};

function writeMessage(file: ProtoFile, message: ProtoMessage, writer: WireWriter): void {
  writer.stringField(text(1), message.name);
  for (const field of message.fields) {
    writer.messageMember(text(2), 1, (each, to) => writeField(file, message, each, to), field);
  }
  for (const each of message.enums) writer.messageMember(text(4), 1, writeEnum, each);
  for (const oneof of message.oneofs) {
    writer.messageMember(text(8), 1, (name, to) => to.stringField(text(1), name), oneof);
  }
}

function writeField(
  file: ProtoFile,
  message: ProtoMessage,
  field: ProtoField,
  writer: WireWriter,
): void {
  writer.stringField(text(1), field.name);
  writer.int32Field(number(3), field.number);
  writer.int32Field(number(4), field.repeated ? labelRepeated : labelOptional);
  const scalar = types[field.type];
  if (scalar !== undefined) {
    writer.int32Field(number(5), scalar);
  } else {
    const isEnum = message.enums.some(({ name }) => name === field.type);
    writer.int32Field(number(5), isEnum ? enumType : messageType);
    const scope = isEnum ? `${message.name}.` : "";
    const isElsewhere = field.type.includes(".");
    writer.stringField(
      text(6),
      isElsewhere ? `.${field.type}` : `.${file.package}.${scope}${field.type}`,
    );
  }
  if (field.oneof !== undefined) {
    // The first one has the number 0, which has to be written all the same.
    writer.varintMember(number(9), message.oneofs.indexOf(field.oneof));
  }
  writer.stringField(text(10), camel(field.name));
}

const writeEnum: WireWrite<ProtoEnum> = (each, writer) => {
  writer.stringField(text(1), each.name);
  for (const value of each.values) {
    writer.messageMember(
      text(2),
      1,
      (one, to) => {
        to.stringField(text(1), one.name);
        to.varintMember(number(2), one.number);
      },
      value,
    );
  }
};

function writeService(file: ProtoFile, service: ProtoService, writer: WireWriter): void {
  writer.stringField(text(1), service.name);
  for (const method of service.methods) {
    writer.messageMember(text(2), 1, (each, to) => writeMethod(file, each, to), method);
  }
}

function writeMethod(file: ProtoFile, method: ProtoMethod, writer: WireWriter): void {
  writer.stringField(text(1), method.name);
  writer.stringField(text(2), `.${file.package}.${method.input}`);
  writer.stringField(text(3), `.${file.package}.${method.output}`);
  writer.boolField(number(5), method.clientStreaming);
  writer.boolField(number(6), method.serverStreaming);
}
