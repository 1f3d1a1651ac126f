// Elements and words. Data reaches the page as text nodes and attributes of our own naming, and in no other way.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "style") for (const [what, how] of Object.entries(value)) element.style.setProperty(what, how);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const $ = (id) => document.getElementById(id);

// Replaces what an element holds, and gives the focus back to what has the same key.
function show(element, ...children) {
  const held = document.activeElement;
  const key = held && element.contains(held) ? held.dataset.key : undefined;
  element.replaceChildren(...children.flat(3).filter((one) => one !== null && one !== undefined && one !== false));
  if (key !== undefined)
    for (const one of element.querySelectorAll("[data-key]"))
      if (one.dataset.key === key) {
        one.focus({ preventScroll: true });
        break;
      }
  return element;
}

const whole = (n) => Math.round(n).toLocaleString("en");
const digits = (x, n = 3) => {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1000) return whole(x);
  return x.toLocaleString("en", { maximumSignificantDigits: n, minimumSignificantDigits: size < 100 ? n : undefined });
};
// A bound is rounded up, so that what is written is a bound, too.
function atMost(x) {
  if (x === null || x === undefined) return "–";
  if (!(x > 0)) return "0";
  const unit = 10 ** Math.min(Math.floor(Math.log10(x)) - 2, 0);
  const up = Math.ceil((x / unit) * (1 - 1e-12)) * unit;
  return up >= 100 ? whole(up) : up.toLocaleString("en", { maximumSignificantDigits: 3 });
}
const sureness = (share) => `${+(100 * share).toFixed(4)}%`;
const short = (n) =>
  n >= 1e9
    ? `${+(n / 1e9).toPrecision(3)}G`
    : n >= 1e6
      ? `${+(n / 1e6).toPrecision(3)}M`
      : n >= 1e3
        ? `${+(n / 1e3).toPrecision(3)}k`
        : `${+n.toPrecision(3)}`;
const percent = (share) =>
  share >= 0.0995 || share === 0
    ? `${Math.round(100 * share)}%`
    : share < 0.0005
      ? "<0.1%"
      : `${(100 * share).toFixed(1)}%`;
const pad = (n) => String(n).padStart(2, "0");
const clock = (ms, seconds = true) => {
  const d = new Date(ms);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}${seconds ? `:${pad(d.getSeconds())}` : ""}`;
};
const day = (ms) => {
  const d = new Date(ms);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
};
const when = (ms, now) => (day(ms) === day(now) ? clock(ms, false) : `${day(ms)} ${clock(ms, false)}`);
function span(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
const bytes = (n) =>
  n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e3).toFixed(1)} kB`;
const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

const empty = (title, why) => h("div", { class: "empty" }, h("b", null, title), why);
const heading = (id, title, sub, ...right) =>
  h(
    "div",
    { class: "head" },
    h("div", null, h("h2", { id }, title), sub ? h("p", { class: "sub" }, sub) : null),
    right,
  );
const card = (size, id, ...children) => h("section", { class: `card ${size}`, "aria-labelledby": id }, children);
function segments(label, values, chosen, choose) {
  return h(
    "div",
    { class: "seg", role: "group", "aria-label": label },
    values.map(([value, name]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(value === chosen),
          "data-key": `${label} ${value}`,
          on: { click: () => choose(value) },
        },
        name,
      ),
    ),
  );
}
// A head is [what it says, class]; `around` are attributes of what scrolls when the table is too wide.
function table(heads, body, around) {
  const cells = heads.map(([name, kind]) => h("th", { scope: "col", class: kind }, name));
  return h("div", { class: "scroll", ...around }, h("table", null, h("thead", null, h("tr", null, cells)), body));
}
