// Charts are drawn in the page's own pixels, so that text keeps its size, and each has its numbers in a table.
const ROWS = 24; // of the table beside a chart

function frame(host, height, label, draw) {
  const width = Math.max(host.clientWidth, 240);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    draw(width, height),
  );
}
// Under the pointer a chart says its numbers; without one they are in the table.
function reading(svg, xs, top, bottom, words) {
  const line = s("line", { y1: top, y2: bottom, class: "s-soft", "stroke-dasharray": "2 3", visibility: "hidden" }),
    text = s("text", { y: top + 3, class: "t", visibility: "hidden" });
  svg.append(line, text);
  const hide = () => {
    for (const one of [line, text]) one.setAttribute("visibility", "hidden");
  };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(),
      at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    let near = 0;
    xs.forEach((x, i) => {
      if (Math.abs(x - at) < Math.abs(xs[near] - at)) near = i;
    });
    const x = xs[near],
      right = x > svg.viewBox.baseVal.width / 2;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    text.setAttribute("x", right ? x - 6 : x + 6);
    text.setAttribute("text-anchor", right ? "end" : "start");
    text.textContent = words(near);
    for (const one of [line, text]) one.setAttribute("visibility", "visible");
  });
  return svg;
}
const path = (xs, ys) => xs.map((x, i) => `${i ? "L" : "M"}${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("");
const area = (xs, top, bottom) => `${path([...xs, ...xs.slice().reverse()], [...top, ...bottom.slice().reverse()])}Z`;
const label = (x, y, text, anchor = "middle", kind = "") =>
  s("text", { x, y, "text-anchor": anchor, class: kind }, text);

// Where a number of decisions stands on a logarithmic axis.
const byLog = (from, to, box, w) => {
  const first = Math.log(from),
    wide = Math.log(to) - first || 1;
  return (t) => box.l + ((Math.log(t) - first) / wide) * (w - box.l - box.r);
};

function ticks(top, count = 4) {
  const raw = top / count,
    base = 10 ** Math.floor(Math.log10(raw)),
    step = [1, 2, 2.5, 5, 10].map((k) => k * base).find((one) => one >= raw * 0.999);
  return Array.from({ length: Math.ceil(top / step - 1e-9) + 1 }, (_, i) => +(i * step).toPrecision(6));
}
// All marks of an axis with as many decimals as its step needs.
const even = (marks) => {
  const places = Math.min(Math.max(0, ...marks.map((v) => (String(v).split(".")[1] ?? "").length)), 6);
  return (v) => (v ? (v >= 1000 ? short(v) : v.toFixed(places)) : "0");
};
function rules(width, box, marks, y, words = short) {
  return marks.map((mark) => [
    s("line", { x1: box.l, x2: width - box.r, y1: y(mark), y2: y(mark), class: "s-grid" }),
    label(box.l - 8, y(mark) + 4, words(mark), "end"),
  ]);
}
// Decisions are drawn by their logarithm: what was learnt early is as visible as what was learnt late.
function decades(first, last, x) {
  const found = [];
  for (let base = 10 ** Math.floor(Math.log10(first)); base <= last; base *= 10)
    for (const k of [1, 3]) {
      const t = k * base;
      if (t >= first * 0.99 && x(last) - x(t) > 40 && (!found.length || x(t) - x(found.at(-1)) > 40)) found.push(t);
    }
  return [...found, last];
}
const some = (list) => {
  const step = Math.max(1, Math.ceil(list.length / ROWS));
  return list.filter((_, i) => (list.length - 1 - i) % step === 0);
};
const numbers = (name, heads, rows) => {
  const lines = rows.map((row) => h("tr", null, row.map((one) => h("td", null, String(one)))));
  const scrolled = { tabindex: "0", role: "region", "aria-label": `${name}, numbers` };
  const listed = table(heads.map((one) => [one]), h("tbody", null, lines), scrolled);
  return h("details", { class: "data" }, h("summary", null, "Numbers"), listed);
};

function lossChart(points, all) {
  const host = h("figure");
  const known = points
    .filter((p) => p[2] !== null && p[0] >= 5)
    .map((p) => ({ t: p[0], bound: p[2] / p[0], guess: p[3] === null ? null : p[3] / p[0] }));
  if (known.length < 2) return { host, draw() {}, table: null, empty: true };
  // At first nothing is known, and the bound is what a decision can lose at all: that would press the rest flat.
  const late = all ? known : known.filter((p) => p.t >= known.at(-1).t / 200),
    from = late.length > 2 ? late : known,
    last = from.at(-1);
  const said =
    `Certified loss per decision over decisions made: ${atMost(from[0].bound)} after ${whole(from[0].t)}, ` +
    `${atMost(last.bound)} after ${whole(last.t)}`;
  const draw = () => {
    let places = [];
    show(
      host,
      reading(
        frame(host, 240, said, (w, height) => {
          const box = { l: 44, r: 78, t: 8, b: 24 },
            marks = ticks(Math.max(...from.map((p) => p.bound))),
            top = marks.at(-1);
          const x = byLog(from[0].t, last.t, box, w),
            y = (v) => height - box.b - (v / top) * (height - box.t - box.b);
          const xs = from.map((p) => x(p.t)),
            ys = from.map((p) => y(p.bound)),
            guessed = from.filter((p) => p.guess !== null);
          const end = guessed.length ? y(guessed.at(-1).guess) : 0;
          places.push(...xs);
          return [
            rules(w, box, marks, y, even(marks)),
            decades(from[0].t, last.t, x).map((t) => label(x(t), height - 6, short(t))),
            s("path", {
              d: area(
                xs,
                ys,
                ys.map(() => y(0)),
              ),
              class: "f-band",
            }),
            s("path", { d: path(xs, ys), class: "line s-accent" }),
            guessed.length > 1 &&
              s("path", {
                d: path(
                  guessed.map((p) => x(p.t)),
                  guessed.map((p) => y(p.guess)),
                ),
                class: "line s-accent",
                "stroke-dasharray": "4 3",
              }),
            s("circle", { cx: xs.at(-1), cy: ys.at(-1), r: 3.5, class: "f-accent" }),
            label(xs.at(-1) + 8, ys.at(-1) - 5, `≤ ${atMost(last.bound)}`, "start", "t"),
            guessed.length > 0 &&
              label(
                xs.at(-1) + 8,
                Math.max(end + 3, ys.at(-1) + 11),
                `est. ${digits(guessed.at(-1).guess, 2)}`,
                "start",
              ),
          ];
        }),
        places,
        8,
        216,
        (i) =>
          `${whole(from[i].t)}: at most ${atMost(from[i].bound)}` +
          `${from[i].guess === null ? "" : `, est. ${digits(from[i].guess, 2)}`}`,
      ),
    );
  };
  const rows = some(from).map((p) => [whole(p.t), atMost(p.bound), p.guess === null ? "–" : digits(p.guess)]);
  return {
    host,
    draw,
    table: numbers("Certified loss per decision", ["decisions", "lost at most, each", "estimate"], rows),
  };
}

// A mean and its interval on both sides of 0, over the decisions that count.
function liftChart(points) {
  const host = h("figure");
  const late = points.filter((p) => p[0] >= points.at(-1)[0] / 200),
    from = late.length > 2 ? late : points;
  if (from.length < 2) return { host, draw() {}, table: null, empty: true };
  const last = from.at(-1),
    sure = (v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${digits(Math.abs(v))}`;
  const said =
    `What a decision of the policy earns more than one of the control: after ${whole(last[0])} decisions ` +
    `${sure(last[2])}, between ${sure(last[3])} and ${sure(last[4])}`;
  const draw = () => {
    let at = [];
    show(
      host,
      reading(
        frame(host, 216, said, (w, height) => {
          const box = { l: 52, r: 66, t: 10, b: 24 },
            most = Math.max(...from.map((p) => p[4]), 0),
            least = Math.min(...from.map((p) => p[3]), 0),
            [, step] = ticks(Math.max(most, -least), 3),
            low = Math.floor(least / step + 1e-9),
            high = Math.ceil(most / step - 1e-9);
          const marks = Array.from({ length: high - low + 1 }, (_, i) => +((low + i) * step).toPrecision(6)),
            x = byLog(from[0][0], last[0], box, w),
            y = (v) => box.t + ((high * step - v) / ((high - low) * step || 1)) * (height - box.t - box.b);
          const xs = from.map((p) => x(p[0])),
            guess = from.map((p) => y(p[2]));
          at.push(...xs);
          const ends = [
            [last[4], y(last[4])],
            [last[2], guess.at(-1)],
            [last[3], y(last[3])],
          ];
          for (let i = 1; i < ends.length; i++) ends[i][1] = Math.max(ends[i][1], ends[i - 1][1] + 13);
          return [
            rules(w, box, marks, y, (v) => (v < 0 ? "−" : "") + even(marks)(Math.abs(v))),
            s("path", {
              d: area(
                xs,
                from.map((p) => y(p[4])),
                from.map((p) => y(p[3])),
              ),
              class: "f-band",
            }),
            s("line", { x1: box.l, x2: w - box.r, y1: y(0), y2: y(0), class: "s-soft" }),
            s("path", { d: path(xs, guess), class: "line s-accent" }),
            s("circle", { cx: xs.at(-1), cy: guess.at(-1), r: 3.5, class: "f-accent" }),
            decades(from[0][0], last[0], x).map((t) => label(x(t), height - 6, short(t))),
            ends.map(([v, place], i) => label(xs.at(-1) + 8, place + 4, sure(v), "start", i === 1 ? "t" : "")),
          ];
        }),
        at,
        10,
        192,
        (i) => `${whole(from[i][0])}: ${sure(from[i][2])}, from ${sure(from[i][3])} to ${sure(from[i][4])}`,
      ),
    );
  };
  const rows = some(from).map((p) => [whole(p[0]), sure(p[2]), sure(p[3]), sure(p[4])]);
  return { host, draw, table: numbers("Lift", ["decisions", "estimate", "at least", "at most"], rows) };
}

function triageChart(points) {
  const host = h("figure");
  const from = points.filter((p) => p[4] !== null && p[0] >= 5);
  if (from.length < 2) return { host, draw() {}, table: null, empty: true };
  const last = from.at(-1),
    most = Math.max(...from.map((p) => p[4] + p[5] + p[6]));
  const said =
    `Items over decisions made: after ${whole(last[0])}, ` +
    `${last[4]} confirmed, ${last[5]} open, ${last[6]} eliminated`;
  const draw = () => {
    let at = [];
    show(
      host,
      reading(
        frame(host, 216, said, (w, height) => {
          const box = { l: 36, r: 44, t: 8, b: 24 },
            x = byLog(from[0][0], last[0], box, w),
            y = (v) => height - box.b - (v / most) * (height - box.t - box.b);
          const xs = from.map((p) => x(p[0])),
            sure = from.map((p) => y(p[4])),
            open = from.map((p) => y(p[4] + p[5])),
            top = from.map((p) => y(p[4] + p[5] + p[6])),
            zero = from.map(() => y(0));
          at.push(...xs);
          const places = [
            [last[6], (top.at(-1) + open.at(-1)) / 2],
            [last[5], (open.at(-1) + sure.at(-1)) / 2],
            [last[4], (sure.at(-1) + y(0)) / 2],
          ].filter(([n]) => n);
          for (let i = 1; i < places.length; i++) places[i][1] = Math.max(places[i][1], places[i - 1][1] + 13);
          return [
            s("path", { d: area(xs, top, open), class: "f-out" }),
            s("path", { d: area(xs, open, sure), class: "f-open" }),
            s("path", { d: area(xs, sure, zero), class: "f-sure" }),
            [0, most / 2, most].map((v) => label(box.l - 6, y(v) + 4, short(Math.round(v)), "end")),
            decades(from[0][0], last[0], x).map((t) => label(x(t), height - 6, short(t))),
            places.map(([n, high]) => label(w - box.r + 6, high + 4, whole(n), "start", "t")),
          ];
        }),
        at,
        8,
        192,
        (i) => `${whole(from[i][0])}: ${from[i][4]} confirmed, ${from[i][5]} open, ${from[i][6]} eliminated`,
      ),
    );
  };
  const rows = some(from).map((p) => [whole(p[0]), p[4], p[5], p[6]]);
  return { host, draw, table: numbers("Triage", ["decisions", "confirmed", "open", "eliminated"], rows) };
}

// Two series over minutes; a gap is where nothing was counted.
function minutesChart(name, from, series, unit, since) {
  const skip = Math.max(0, Math.min(Math.floor((since - from) / 60000), series[0].values.length - 10));
  from += skip * 60000;
  series = series.map((one) => ({ ...one, values: one.values.slice(skip) }));
  const host = h("figure"),
    values = series.flatMap((one) => one.values).filter((v) => v !== null);
  if (!values.some((v) => v > 0)) return { host, draw() {}, table: null, empty: true };
  const n = series[0].values.length,
    now = series.map((one) => `${one.name} ${digits(one.values.findLast((v) => v !== null) ?? 0)}${unit}`).join(", ");
  const draw = () => {
    let at = [];
    show(
      host,
      reading(
        frame(host, 150, `${name}, last ${n} minutes; at the end ${now}`, (w, height) => {
          const box = { l: 44, r: 12, t: 8, b: 24 },
            marks = ticks(Math.max(...values), 3),
            top = marks.at(-1);
          const x = (i) => box.l + (i / (n - 1)) * (w - box.l - box.r),
            y = (v) => height - box.b - (v / top) * (height - box.t - box.b);
          at.push(...series[0].values.map((_, i) => x(i)));
          const lines = series.map((one) => {
            let d = "",
              before = null;
            one.values.forEach((v, i) => {
              if (v !== null) {
                d += `${before === null ? "M" : "L"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
                if (before === null) {
                  d += "h.01";
                }
              }
              before = v;
            });
            const end = one.values.findLastIndex((v) => v !== null);
            return [
              s("path", { d, class: `line s-${one.kind}` }),
              end >= 0 && s("circle", { cx: x(end), cy: y(one.values[end]), r: 2.5, class: `f-${one.kind}` }),
            ];
          });
          const steps = w > 420 ? 4 : 3;
          return [
            rules(w, box, marks, y),
            Array.from({ length: steps }, (_, i) => {
              const minute = Math.round((i / (steps - 1)) * (n - 1));
              return label(
                x(minute),
                height - 6,
                clock(from + minute * 60000, false),
                i === steps - 1 ? "end" : i ? "middle" : "start",
              );
            }),
            lines,
          ];
        }),
        at,
        8,
        126,
        (i) =>
          `${clock(from + i * 60000, false)}: ` +
          `${series.map((one) => `${one.name} ${digits(one.values[i])}${unit}`).join(", ")}`,
      ),
    );
  };
  const rows = some(series[0].values.map((_, i) => i)).map((i) => [
    clock(from + i * 60000, false),
    ...series.map((one) => digits(one.values[i])),
  ]);
  return { host, draw, table: numbers(name, ["minute", ...series.map((one) => one.name)], rows) };
}

const MARKS = {
  confirmed: () => s("circle", { cx: 5, cy: 5, r: 4.5, class: "f-sure" }),
  open: () => s("rect", { x: 1, y: 1, width: 8, height: 8, rx: 1.5, class: "f-open", transform: "rotate(45 5 5)" }),
  eliminated: () => s("path", { d: "M1.5 1.5L8.5 8.5M8.5 1.5L1.5 8.5", class: "s-out", "stroke-width": 2 }),
  retired: () => s("path", { d: "M1 5H9", class: "s-out", "stroke-width": 2 }),
};
const mark = (state, said) =>
  s(
    "svg",
    {
      viewBox: "0 0 10 10",
      class: "mark",
      ...(said ? { role: "img", "aria-label": state } : { "aria-hidden": "true" }),
    },
    MARKS[state]?.() ?? null,
  );

function intervalDrawing(row, axis, line) {
  if (row.low === null || axis === null) return null;
  const kind = { confirmed: "sure", open: "open" }[row.state] ?? "out",
    wide = 200,
    x = (v) => ((v - axis[0]) / (axis[1] - axis[0])) * (wide - 4) + 2;
  return s(
    "svg",
    {
      viewBox: `0 0 ${wide} 20`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `from ${digits(row.low)} to ${digits(row.high)}`,
    },
    line !== null &&
      s("line", {
        x1: x(line),
        x2: x(line),
        y1: 0,
        y2: 20,
        class: "s-soft",
        "stroke-dasharray": "2 2",
        "vector-effect": "non-scaling-stroke",
      }),
    s("rect", {
      x: x(row.low),
      width: Math.max(1, x(row.high) - x(row.low)),
      y: 7.5,
      height: 5,
      rx: 2,
      class: `f-${kind}`,
      opacity: 0.45,
    }),
    row.mean !== null && s("rect", { x: x(row.mean) - 1.3, width: 2.6, y: 4, height: 12, rx: 1, class: `f-${kind}` }),
  );
}
