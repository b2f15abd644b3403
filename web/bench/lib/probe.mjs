// What is put into the dashboard's page before its own code: clocks around what a frame causes. The page knows nothing of it.

/** Runs in the page. Each message of the live stream, and the picture that it asks for, become samples of `bench`. */
export function install() {
  const bench = { samples: [], rowsAtMs: null, urls: [], longTasks: [] };
  globalThis.bench = bench;
  let message = null;

  const handler = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
  const timed = (socket, listener) => (event) => {
    const begun = performance.now();
    message = {
      atMs: begun,
      bytes: event.data.byteLength ?? event.data.length,
      decode: 0,
      render: 0,
      layout: 0,
    };
    bench.samples.push(message);
    try {
      listener.call(socket, event);
    } finally {
      message.decode = performance.now() - begun;
      message = null;
    }
  };
  Object.defineProperty(WebSocket.prototype, "onmessage", {
    ...handler,
    set(listener) {
      handler.set.call(this, listener === null ? null : timed(this, listener));
    },
  });

  // A picture that a message asks for is that message's; then style and layout are forced, to be timed by themselves.
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => {
    const cause = message;
    if (cause === null) return request(callback);
    return request((now) => {
      const begun = performance.now();
      callback(now);
      const drawn = performance.now();
      void document.body.offsetHeight;
      cause.render += drawn - begun;
      cause.layout += performance.now() - drawn;
    });
  };

  const create = URL.createObjectURL.bind(URL);
  URL.createObjectURL = (blob) => {
    bench.urls.push(performance.now());
    return create(blob);
  };
  new PerformanceObserver((list) =>
    bench.longTasks.push(...list.getEntries().map(({ startTime, duration }) => ({ startTime, duration }))),
  ).observe({ entryTypes: ["longtask"] });

  // The first picture with rows: seen by the document, then painted.
  const seen = new MutationObserver(() => {
    if (document.querySelector('[role="grid"] [role="gridcell"]') === null) return;
    seen.disconnect();
    request(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        bench.rowsAtMs = performance.now();
      };
      port2.postMessage(null);
    });
  });
  seen.observe(document, { subtree: true, childList: true });
}

/** Messages of one tick as one sample: a tick's frames come together, ticks are far apart. */
export function ticks(samples, everyMs, bytesLeast) {
  const groups = [];
  for (const sample of samples) {
    const last = groups.at(-1);
    if (last !== undefined && sample.atMs - last[0].atMs < everyMs / 2) last.push(sample);
    else groups.push([sample]);
  }
  const sum = (group, key) => group.reduce((total, sample) => total + sample[key], 0);
  return groups
    .filter((group) => sum(group, "bytes") >= bytesLeast)
    .map((group) => ({
      kilobytes: sum(group, "bytes") / 1_000,
      decode: sum(group, "decode"),
      script: sum(group, "decode") + sum(group, "render"),
      all: sum(group, "decode") + sum(group, "render") + sum(group, "layout"),
    }));
}

/** Runs in the page: scrolls up and down at so many pixels a second, and returns the time between pictures. */
export async function scroll({ speed, ms }) {
  const scroller = [...document.querySelectorAll("*")].find(
    (element) =>
      element.scrollHeight > element.clientHeight + 100_000 &&
      /auto|scroll/.test(getComputedStyle(element).overflowY),
  );
  if (scroller === undefined) throw new Error("nothing to scroll");
  const intervals = [];
  let [last, begun] = [null, null];
  await new Promise((done) => {
    const step = (now) => {
      begun ??= now;
      if (last !== null) intervals.push(now - last);
      last = now;
      const part = (now - begun) / ms;
      scroller.scrollTop = (part < 0.5 ? part : 1 - part) * 2 * (ms / 2_000) * speed;
      if (part < 1) requestAnimationFrame(step);
      else done();
    };
    requestAnimationFrame(step);
  });
  return intervals;
}
