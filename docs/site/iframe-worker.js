// The search runs in a worker, and browsers start none for pages that are read from disk. There a hidden frame stands
// in: the worker's script runs in it, and messages pass both ways as events.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((start) => {
        const run = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.src = new URL(address, location.href).href;
          script.addEventListener("load", () => start(inside));
          inside.document.body.append(script);
        };
        frame.addEventListener("load", run, { once: true });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
