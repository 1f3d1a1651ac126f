// A page that was opened from disk may not start a web worker. There, the theme's search runs in a hidden frame instead.
if (location.protocol === "file:") {
  const message = data => new MessageEvent("message", { data: structuredClone(data) })

  window.Worker = class {
    constructor(url) {
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      frame.contentDocument.open()
      frame.contentDocument.close()
      this.inside = frame.contentWindow
      this.inside.postMessage = data => setTimeout(() => this.onmessage?.(message(data)))
      const script = frame.contentDocument.createElement("script")
      script.src = new URL(url, location)
      this.loaded = new Promise(resolve => script.addEventListener("load", resolve))
      frame.contentDocument.documentElement.append(script)
    }

    postMessage(data) {
      const sent = message(data)
      this.loaded.then(() => this.inside.dispatchEvent(sent))
    }

    terminate() {
      this.inside.frameElement?.remove()
    }
  }
}
