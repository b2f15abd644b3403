import type { Spark } from "../live/codec";

/** Draws one sparkline into a box; its own maximum is the top, for the shape is what it tells. */
export function drawSpark(
  canvas: CanvasRenderingContext2D,
  spark: Spark,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  const { buckets, filled } = spark;
  const from = buckets.length - filled;
  let most = 0;
  for (let i = from; i < buckets.length; i += 1) most = Math.max(most, buckets[i]!);
  const left = (i: number) => x + (i / (buckets.length - 1)) * width;
  const top = (i: number) => y + height - (most > 0 ? (buckets[i]! / most) * height : 0);
  canvas.beginPath();
  for (let i = from; i < buckets.length; i += 1) canvas.lineTo(left(i), top(i));
  canvas.stroke();
  canvas.lineTo(left(buckets.length - 1), y + height);
  canvas.lineTo(left(from), y + height);
  canvas.fill();
}
