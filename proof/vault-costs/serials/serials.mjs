// The same as main.go beside it, for Node.js: a cipher, an IV and a hexadecimal text for each serial, nothing authenticated.
//
// node proof/vault-costs/serials/serials.mjs [serials]
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

const ROUNDS = 3;
const count = Number(process.argv[2] ?? 1_000_000);
const key = Buffer.alloc(32);

function encrypt(serial) {
  const iv = randomBytes(16);
  const cipher = createCipheriv("aes-256-cbc", key, iv);
  return iv.toString("hex") + cipher.update(serial, "utf8", "hex") + cipher.final("hex");
}

function decrypt(text) {
  const decipher = createDecipheriv("aes-256-cbc", key, Buffer.from(text.slice(0, 32), "hex"));
  return decipher.update(text.slice(32), "hex", "utf8") + decipher.final("utf8");
}

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};
const serials = Array.from({ length: count }, (_, at) => String(at).padStart(32, "0"));
let [there, back] = [Infinity, Infinity];
for (let round = 0; round < ROUNDS; round += 1) {
  const began = cpuMs();
  const sealed = serials.map(encrypt);
  const half = cpuMs();
  sealed.forEach((text, at) => {
    if (decrypt(text) !== serials[at]) throw new Error(`serial ${at} came back as another`);
  });
  [there, back] = [Math.min(there, half - began), Math.min(back, cpuMs() - half)];
}
console.log(`| Node.js, AES-256-CBC, one by one | ${there.toFixed(0)} | ${back.toFixed(0)} |`);
