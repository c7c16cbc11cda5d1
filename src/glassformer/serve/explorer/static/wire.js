// @ts-check
// Requests and answers. Each request has one of three carriers: HTTP, a file with its answers, or
// the messages of a notebook.
//   POST /api     JSON -> a safetensors file: metadata "header" (JSON text) and arrays
//   POST /stream  JSON -> one JSON object a line, the last {"done": true}
import {canonical} from "./state.js";

/**
 * @typedef {{dtype: string, shape: number[], data: any}} Tensor  an array: its axes' lengths and
 * its numbers, row by row
 */
/** @typedef {{header: any, arrays: Record<string, Tensor>}} Reply */
/** @typedef {{ask: (body: any, signal?: AbortSignal) => Promise<ArrayBuffer>,
 *             lines: (body: any, signal?: AbortSignal) => AsyncIterable<any>}} Carrier */

/** An error as an answer, in one sentence. */
export class WireError extends Error {
  constructor(/** @type {string} */ sentence, kind = "Error", status = 0) {
    super(sentence);
    this.name = "WireError";
    this.kind = kind;
    this.status = status;
  }
}

/** The error of a request that a newer one has cancelled. */
export const cancelled = () => new DOMException("A newer request took its place.", "AbortError");

/** Whether a request was cancelled by a newer one. @param {any} error */
export function superseded(error) {
  return error?.name === "AbortError";
}

const KEPT_BYTES = 64 << 20;

/**
 * call(op, args, {signal, key, fresh}) -> {header, arrays};  stream(op, args, onItem, {signal,
 * key}).
 * `key` names a place on the screen: a newer call with the same key cancels the older, so the
 * newest selection wins.
 * An answer is cached for the same request, unless `fresh`; `keep: false` does not store it.
 * @param {Carrier} carrier
 */
export function makeWire(carrier) {
  /** @type {Map<string, AbortController>} */
  const running = new Map();
  /** @type {Map<string, {reply: Reply, bytes: number}>} */
  const kept = new Map();
  /**
   * @type {Map<string, {question: string, body: any, bytes: number}>} answered requests, for a file
   * with their answers
   */
  const asked = new Map();
  /**
   * @type {Map<string, {abort: AbortController, count: number, answer: Promise<ArrayBuffer>}>}
   * requests under way
   */
  const waiting = new Map();
  let held = 0;
  const answered = (question, body, bytes) => {
    asked.delete(question);
    asked.set(question, {question, body, bytes});
  };

  function started(signal, key) {
    const abort = new AbortController();
    signal?.addEventListener("abort", () => abort.abort(), {once: true});
    if (signal?.aborted) abort.abort();
    if (key) {
      running.get(key)?.abort();
      running.set(key, abort);
    }
    return abort;
  }
  const ended = (key, abort) => key && running.get(key) === abort && running.delete(key);

  /**
   * The answer's bytes. Equal requests at the same time are sent once, and cancelled when nobody
   * waits for them.
   */
  async function together(question, body, signal) {
    let one = waiting.get(question);
    if (!one) {
      const abort = new AbortController(),
        end = () => waiting.get(question) === one && waiting.delete(question);
      one = {abort, count: 0, answer: carrier.ask(body, abort.signal).finally(() => end())};
      waiting.set(question, one);
    }
    const {abort, answer} = one,
      gaveUp = new Promise((_, reject) => {
        const give = () => reject(cancelled());
        if (signal.aborted) give();
        signal.addEventListener("abort", give, {once: true});
      });
    one.count++;
    try {
      return await Promise.race([answer, gaveUp]);
    } finally {
      if (--one.count === 0 && signal.aborted) {
        if (waiting.get(question) === one) waiting.delete(question);
        answer.catch(() => {}); // nobody waits for this rejection
        abort.abort();
      }
    }
  }

  return {
    /** @returns {Promise<Reply>} */
    async call(
      /** @type {string} */ op,
      args = {},
      {signal, key, fresh = false, keep = true} = /** @type {any} */ ({}),
    ) {
      const body = {op, ...args},
        question = canonical(body),
        abort = started(signal, key);
      try {
        const known = !fresh && kept.get(question);
        if (known) {
          kept.delete(question);
          kept.set(question, known); // least recently used first
          answered(question, body, known.bytes);
          return known.reply;
        }
        const buffer = await (fresh
          ? carrier.ask(body, abort.signal)
          : together(question, body, abort.signal));
        if (abort.signal.aborted) throw cancelled();
        const again = !fresh && kept.get(question);
        if (again) return again.reply; // of an equal request at the same time
        const reply = readSafetensors(buffer);
        if (!keep) return reply;
        answered(question, body, buffer.byteLength);
        held -= kept.get(question)?.bytes ?? 0;
        kept.set(question, {reply, bytes: buffer.byteLength});
        held += buffer.byteLength;
        for (const [oldest, {bytes}] of kept) {
          if (held <= KEPT_BYTES || kept.size === 1) break;
          kept.delete(oldest);
          held -= bytes;
        }
        return reply;
      } finally {
        ended(key, abort);
      }
    },
    async stream(
      /** @type {string} */ op,
      args,
      /** @type {(item: any) => void} */ onItem,
      {signal, key} = /** @type {any} */ ({}),
    ) {
      const body = {op, ...args},
        abort = started(signal, key);
      let bytes = 0;
      try {
        for await (const item of carrier.lines(body, abort.signal)) {
          if (abort.signal.aborted) throw cancelled();
          if (item.error) throw new WireError(item.error, item.kind);
          if (item.done) return void answered(canonical(body), body, bytes);
          bytes += JSON.stringify(item).length;
          onItem(item);
        }
        throw new WireError("The answer broke off; ask again.", "WireError");
      } finally {
        ended(key, abort);
      }
    },
    /** Answered requests, the latest last. */
    asked: () => [...asked.values()],
  };
}

/** An error of the network as a WireError. @param {any} error @returns {never} */
function offline(error) {
  if (superseded(error)) throw error;
  throw new WireError("There is no answer; is `glassformer inspect` still running?", "Offline");
}

/** Requests over HTTP to the server of the page. @returns {Carrier} */
export function overHttp(base = ".") {
  async function post(path, body, signal) {
    const response = await fetch(`${base}/${path}`, {
      method: "POST",
      headers: {"Content-Type": "application/json"},
      body: JSON.stringify(body),
      signal,
      credentials: "same-origin",
    }).catch(offline);
    if (response.ok) return response;
    let said = null;
    try {
      said = await response.json();
    } catch {
      // not an answer of the explorer; only its status is known
    }
    throw new WireError(
      said?.error ?? `The server answered ${response.status}.`,
      said?.kind ?? "Http",
      response.status,
    );
  }
  return {
    ask: async (body, signal) => (await post("api", body, signal)).arrayBuffer().catch(offline),
    async *lines(body, signal) {
      const response = await post("stream", body, signal);
      if (!response.body) return;
      const reader = response.body.getReader(),
        decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const {done, value} = await reader.read().catch(offline);
        const parts = (
          rest + (done ? decoder.decode() : decoder.decode(value, {stream: true}))
        ).split("\n");
        rest = done ? "" : /** @type {string} */ (parts.pop());
        for (const part of parts) if (part.trim()) yield JSON.parse(part);
        if (done) return;
      }
    },
  };
}

/**
 * Requests answered from a file: canonical request -> base64 of the answer, or a list of lines.
 * @param {Record<string, any>} answers @returns {Carrier}
 */
export function fromFile(answers) {
  const find = (body) => {
    const found = answers[canonical(body)];
    if (found === undefined)
      throw new WireError(
        "This page was saved without that answer; open the run with `glassformer inspect`.",
        "NotSaved",
      );
    return found;
  };
  return {
    ask: async (body) => Uint8Array.from(atob(find(body)), (c) => c.charCodeAt(0)).buffer,
    async *lines(body) {
      yield* find(body);
    },
  };
}

const READ = {
  U8: (buffer) => new Uint8Array(buffer),
  I32: (buffer) => new Int32Array(buffer),
  F32: (buffer) => new Float32Array(buffer),
  F64: (buffer) => new Float64Array(buffer),
  F16: (buffer) => Float32Array.from(new Uint16Array(buffer), half),
};

/** Reads a safetensors file. @param {ArrayBuffer} buffer @returns {Reply} */
export function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const described = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  /** @type {Record<string, Tensor>} */
  const arrays = {};
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [begin, end],
    },
  ] of Object.entries(described)
    .filter(([name]) => name !== "__metadata__")
    .map(([name, value]) => /** @type {[string, any]} */ ([name, value]))) {
    if (!READ[dtype])
      throw new WireError(
        `The array ${name} holds ${dtype}, which this page does not read.`,
        "WireError",
      );
    arrays[name] = {
      dtype,
      shape,
      data: READ[dtype](buffer.slice(8 + length + begin, 8 + length + end)),
    };
  }
  return {header: JSON.parse(described.__metadata__?.header ?? "{}"), arrays};
}

/**
 * A safetensors file of 32-bit arrays. @param {Record<string, Tensor>} arrays @param
 * {Record<string, string>} [about] @returns {Blob}
 */
export function toSafetensors(arrays, about = {}) {
  /** @type {Record<string, any>} */
  const described = {__metadata__: about},
    names = Object.keys(arrays);
  let end = 0;
  for (const name of names)
    described[name] = {
      dtype: arrays[name].dtype === "F16" ? "F32" : arrays[name].dtype,
      shape: arrays[name].shape,
      data_offsets: [end, (end += arrays[name].data.byteLength)],
    };
  const header = new TextEncoder().encode(JSON.stringify(described)),
    padding = (8 - (header.length % 8)) % 8,
    length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(header.length + padding), true);
  return new Blob([length, header, " ".repeat(padding), ...names.map((name) => arrays[name].data)]);
}

/** The number that 16 bits stand for. @param {number} bits */
export function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1,
    power = (bits >> 10) & 31,
    part = bits & 1023;
  if (power === 31) return part ? NaN : sign * Infinity;
  return sign * (power ? 2 ** (power - 15) * (1 + part / 1024) : 2 ** -14 * (part / 1024));
}

/**
 * The part of an array at these first indices, without copying: part(q, 3) is row 3. @param
 * {Tensor} array @param {...number} at
 */
export function part({shape, data}, ...at) {
  const size = shape.slice(at.length).reduce((a, b) => a * b, 1);
  const start = at.reduce((place, index, axis) => place * shape[axis] + index, 0) * size;
  return data.subarray(start, start + size);
}
