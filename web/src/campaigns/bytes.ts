const FIRST_BYTES = 1 << 16;
const ZERO = 48;
const ASCII_END = 128;
const BILLION = 1e9;
const [MINUS, POINT] = [45, 46];
/** By exponent. */
const POWERS = [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];

/** Text as UTF-8 that is written piece by piece. Strings of millions of pieces take ten times as long, most of it to free them. */
export class Bytes {
  private bytes = new Uint8Array(FIRST_BYTES);
  private length = 0;
  private readonly encoder = new TextEncoder();

  text(text: string): void {
    const { length } = text;
    this.reserve(3 * length);
    const { bytes } = this;
    let at = this.length;
    for (let i = 0; i < length; i += 1) {
      const code = text.charCodeAt(i);
      if (code >= ASCII_END) {
        this.length = at;
        return this.encode(text.slice(i));
      }
      bytes[at++] = code;
    }
    this.length = at;
  }

  /** One character below 128. */
  character(code: number): void {
    this.reserve(1);
    this.bytes[this.length++] = code;
  }

  private encode(text: string): void {
    this.length += this.encoder.encodeInto(text, this.bytes.subarray(this.length)).written;
  }

  /** A whole double below 10^21, whose digits are plain; NaN is nothing. */
  whole(value: number): void {
    if (Number.isNaN(value)) return;
    if (!Number.isSafeInteger(value)) return this.text(value.toString());
    if (value < 0) this.character(MINUS);
    this.digits(Math.abs(value), 1);
  }

  /** Six decimals, none for NaN. */
  millionths(value: number): void {
    if (Number.isNaN(value)) return;
    const rounded = Math.round(Math.abs(value) * 1e6);
    if (!Number.isSafeInteger(rounded)) return this.text(value.toFixed(6));
    if (value < 0) this.character(MINUS);
    const whole = Math.floor(rounded / 1e6);
    this.digits(whole, 1);
    this.character(POINT);
    this.digits(rounded - whole * 1e6, 6);
  }

  /** At least so many digits of a safe integer from 0. */
  private digits(value: number, least: number): void {
    let count = least;
    for (let bound = POWERS[least]!; bound <= value; bound *= 10) count += 1;
    this.reserve(count);
    const { bytes, length } = this;
    const high = Math.floor(value / BILLION);
    let rest = (value - high * BILLION) | 0;
    // The last nine from a small integer, which divides quicker than a double, and those before them from another.
    const middle = Math.max(length, length + count - 9);
    let at = length + count - 1;
    for (; at >= middle; at -= 1) {
      bytes[at] = ZERO + (rest % 10);
      rest = (rest / 10) | 0;
    }
    for (rest = high | 0; at >= length; at -= 1) {
      bytes[at] = ZERO + (rest % 10);
      rest = (rest / 10) | 0;
    }
    this.length = length + count;
  }

  /** What was written since the last time. */
  take(): Uint8Array<ArrayBuffer> {
    const taken = this.bytes.slice(0, this.length);
    this.length = 0;
    return taken;
  }

  private reserve(more: number): void {
    if (this.length + more <= this.bytes.length) return;
    const grown = new Uint8Array(2 * (this.length + more));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }
}
