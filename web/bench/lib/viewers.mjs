// So many dashboards without a browser: each follows the live stream and acknowledges every frame at once.
//   node viewers.mjs ws://127.0.0.1:7780/v1/live 100
// Prints "ready" when all of them have the table and a first change; at the end, on SIGTERM, frames and bytes since then as JSON.
// One that cannot connect ends all.
import WebSocket from "ws";

const [address, count] = process.argv.slice(2);
/** schema/live.xml: the message header (block 8 bytes, template 129, schema 7702, version 1), then the sequence. */
const ACKNOWLEDGE = Buffer.from([8, 0, 129, 0, 0x16, 0x1e, 1, 0]);
const SEQUENCE_AT = 8;
const TEMPLATE_AT = 2;
const DELTA = 2;

const seen = { frames: 0, bytes: 0, closed: 0 };
let ready = 0;

function view() {
  const socket = new WebSocket(address, ["weir.live.1"], {
    origin: address.replace(/^ws/, "http").replace(/\/v1\/.*$/, ""),
    perMessageDeflate: false,
  });
  let heard = false;
  socket.on("message", (frame) => {
    seen.frames += 1;
    seen.bytes += frame.length;
    socket.send(Buffer.concat([ACKNOWLEDGE, frame.subarray(SEQUENCE_AT, SEQUENCE_AT + 8)]));
    if (heard || frame.readUInt16LE(TEMPLATE_AT) !== DELTA) return;
    heard = true;
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

for (let i = 0; i < Number(count); i += 1) view();
process.on("SIGTERM", () => {
  console.log(JSON.stringify(seen));
  process.exit(0);
});
