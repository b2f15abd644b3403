// Slows pages down, to show that a journey waits for what it reads instead of reading what happens to be there.
// SLOW=4: each page has a quarter of a processor, what it does when idle comes late, and so does what the node tells it.

/** How late messages of the live stream are, and work that waits until the page is idle, for each unit of SLOW. */
const MESSAGE_MS = 200;
const IDLE_MS = 1_000;

/** Runs in the page before its own code. */
function lateIdleAndMessages({ idleMs, messageMs }) {
  globalThis.requestIdleCallback = (run) => setTimeout(run, idleMs);
  const Plain = globalThis.WebSocket;
  globalThis.WebSocket = class extends Plain {
    // In their order: timers of one length are.
    set onmessage(listener) {
      super.onmessage = (event) =>
        setTimeout(() => this.readyState === Plain.OPEN && listener.call(this, event), messageMs);
    }
  };
}

/** `times`: 1 is as fast as the machine. */
export async function slowDown(page, times) {
  if (times <= 1) return;
  await page.addInitScript(lateIdleAndMessages, { idleMs: times * IDLE_MS, messageMs: times * MESSAGE_MS });
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: times });
}
