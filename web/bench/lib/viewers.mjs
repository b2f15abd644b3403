// So many dashboards without a browser: each follows the live stream, watches a screen of rows of its own, and acknowledges every frame
// at once.
//   node viewers.mjs ws://127.0.0.1:7780/v1/live 100
// Prints "ready" when all of them have the table and a first change; at the end, on SIGTERM, frames and bytes since then as JSON.
// One that cannot connect ends all.
import WebSocket from "ws";

const [address, count] = process.argv.slice(2);
/** schema/live.xml: the message header (block 8 bytes, template 129 or 130, schema 7702, version 3), then the sequence. */
const ACKNOWLEDGE = Buffer.from([8, 0, 129, 0, 0x16, 0x1e, 3, 0]);
const WATCH = Buffer.from([8, 0, 130, 0, 0x16, 0x1e, 3, 0]);
/** Rows on a screen. */
const WATCHED = 36;
const SEQUENCE_AT = 8;
const TEMPLATE_AT = 2;
const PATCH = 4;

const seen = { frames: 0, bytes: 0, closed: 0 };
let ready = 0;

/** A screen that begins at this row. */
function watch(sequence, first) {
  const rows = Buffer.alloc(4 + 4 * WATCHED);
  rows.writeUInt16LE(4, 0);
  rows.writeUInt16LE(WATCHED, 2);
  for (let i = 0; i < WATCHED; i += 1) rows.writeUInt32LE(first + i, 4 + 4 * i);
  return Buffer.concat([WATCH, sequence, rows]);
}

function view(number) {
  const socket = new WebSocket(address, ["weir.live.3"], {
    origin: address.replace(/^ws/, "http").replace(/\/v1\/.*$/, ""),
    perMessageDeflate: false,
  });
  let heard = false;
  socket.on("message", (frame) => {
    seen.frames += 1;
    seen.bytes += frame.length;
    socket.send(Buffer.concat([ACKNOWLEDGE, frame.subarray(SEQUENCE_AT, SEQUENCE_AT + 8)]));
    if (heard || frame.readUInt16LE(TEMPLATE_AT) !== PATCH) return;
    heard = true;
    socket.send(watch(frame.subarray(SEQUENCE_AT, SEQUENCE_AT + 8), number * WATCHED));
    ready += 1;
    if (ready < Number(count)) return;
    Object.assign(seen, { frames: 0, bytes: 0 });
    console.log("ready");
  });
  socket.on("close", () => {
    seen.closed += 1;
  });
  socket.on("error", (error) => {
    console.error(`viewer: ${error.message}`);
    process.exit(1);
  });
}

for (let i = 0; i < Number(count); i += 1) view(i);
process.on("SIGTERM", () => {
  console.log(JSON.stringify(seen));
  process.exit(0);
});
