/** The bytes between a router and a shard: all messages of one side in an event loop turn, in order. */
import type { Task, TaskId } from "@codeq/queue";
import {
  ByteReader,
  DamagedBytes as DamagedMessage,
  numberBytesMax,
  textExtraBytes,
  unitBytesMax,
  writeNumber,
  writeText,
} from "../store/bytes.ts";
import { readTask, roomOfTask, writeTask } from "../store/task-codec.ts";

export { DamagedBytes as DamagedMessage } from "../store/bytes.ts";

const firstBytes = 16 * 1024;
const doubleBytes = 8;

export class MessageWriter {
  #buffer: Buffer = Buffer.allocUnsafeSlow(firstBytes);
  #at = 0;

  get bytes(): number {
    return this.#at;
  }

  byte(value: number): void {
    this.#room(1);
    this.#buffer[this.#at] = value;
    this.#at += 1;
  }

  flag(value: boolean): void {
    this.byte(value ? 1 : 0);
  }

  /** A whole number that is not negative. */
  number(value: number): void {
    this.#room(numberBytesMax);
    this.#at = writeNumber(this.#buffer, this.#at, value);
  }

  /** Any number. */
  double(value: number): void {
    this.#room(doubleBytes);
    this.#at = this.#buffer.writeDoubleLE(value, this.#at);
  }

  text(value: string): void {
    this.#room(value.length * unitBytesMax + textExtraBytes);
    this.#at = writeText(this.#buffer, this.#at, value);
  }

  task(task: Task): void {
    this.text(task.id);
    this.#room(roomOfTask(task) + 4);
    const start = this.#at + 4;
    const end = writeTask(this.#buffer, start, task);
    this.#buffer.writeUInt32LE(end - start, this.#at);
    this.#at = end;
  }

  /** Adds what another one wrote, which begins anew. */
  append(other: MessageWriter): void {
    const bytes = other.#at;
    this.#room(bytes);
    other.#buffer.copy(this.#buffer, this.#at, 0, bytes);
    this.#at += bytes;
    other.#at = 0;
  }

  /** What was written; the next message begins. */
  take(): Uint8Array<ArrayBuffer> {
    const { buffer, byteOffset } = this.#buffer;
    const taken = new Uint8Array(buffer as ArrayBuffer, byteOffset, this.#at);
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(firstBytes, Math.min(this.#at, 1024 * 1024)));
    this.#at = 0;
    return taken;
  }

  #room(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }
}

export class MessageReader {
  readonly #buffer: Buffer;
  #reader: ByteReader;

  constructor(message: Uint8Array) {
    this.#buffer = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
    this.#reader = new ByteReader(this.#buffer, 0, this.#buffer.length);
  }

  get isAtEnd(): boolean {
    return this.#reader.isAtEnd;
  }

  byte(): number {
    return this.#reader.byte();
  }

  flag(): boolean {
    return this.byte() === 1;
  }

  number(): number {
    return this.#reader.number();
  }

  double(): number {
    return this.#buffer.readDoubleLE(this.#reader.skip(doubleBytes));
  }

  text(): string {
    return this.#reader.text();
  }

  json(): unknown {
    const text = this.text();
    try {
      return JSON.parse(text);
    } catch {
      throw new DamagedMessage("no JSON");
    }
  }

  task(): Task {
    const id = this.text() as TaskId;
    const bytes = this.#buffer.readUInt32LE(this.#reader.skip(4));
    const start = this.#reader.skip(bytes);
    const task = readTask({ buffer: this.#buffer, start, end: start + bytes }, id);
    if (task === undefined) throw new DamagedMessage(`task ${id} did not arrive whole`);
    return task;
  }
}
