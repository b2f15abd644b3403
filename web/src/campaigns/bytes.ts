const FIRST_BYTES = 1 << 16;
const ZERO = 48;
const ASCII_END = 128;
const BILLION = 1e9;

/** Text as UTF-8 that is written piece by piece. Strings of millions of pieces take ten times as long, most of it to free them. */
export class Bytes {
  private bytes = new Uint8Array(FIRST_BYTES);
  private length = 0;
  private readonly encoder = new TextEncoder();

  text(text: string): void {
    this.reserve(3 * text.length);
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code >= ASCII_END) return this.encode(text.slice(i));
      this.bytes[this.length++] = code;
    }
  }

  private encode(text: string): void {
    this.length += this.encoder.encodeInto(text, this.bytes.subarray(this.length)).written;
  }

  /** A whole double below 10^21, whose digits are plain; NaN is nothing. */
  whole(value: number): void {
    if (Number.isNaN(value)) return;
    if (!Number.isSafeInteger(value)) return this.text(value.toString());
    this.reserve(20);
    if (value < 0) this.bytes[this.length++] = "-".charCodeAt(0);
    const amount = Math.abs(value);
    const billions = Math.floor(amount / BILLION);
    if (billions > 0) this.digits(billions, 1);
    this.digits(amount - billions * BILLION, billions > 0 ? 9 : 1);
  }

  /** At least so many digits of a number below 2^31. */
  private digits(value: number, least: number): void {
    let count = least;
    for (let bound = 10 ** least; bound <= value; bound *= 10) count += 1;
    this.length += count;
    let rest = value | 0;
    for (let at = this.length - 1; count > 0; at -= 1, count -= 1) {
      this.bytes[at] = ZERO + (rest % 10);
      rest = (rest / 10) | 0;
    }
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
