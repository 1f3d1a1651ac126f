// The parts of a policy's page. Each makes its element once, and brings it up to date when new facts come.
const STATUS = {
  running: "ok",
  observing: "ok",
  paused: "warn",
  control: "warn",
  archived: "plain",
  loading: "warn",
  saved: "plain",
};
const icon = (level) => {
  const said = { ok: "fine", warn: "warning", bad: "alarm", none: "not known" }[level];
  if (level === "ok")
    return s(
      "svg",
      { viewBox: "0 0 16 16", role: "img", "aria-label": said },
      s("circle", { cx: 8, cy: 8, r: 7, fill: "var(--ok-bg)" }),
      s("path", {
        d: "M4.8 8.3l2.2 2.2 4.2-4.6",
        fill: "none",
        stroke: "var(--ok)",
        "stroke-width": 1.7,
        "stroke-linecap": "round",
        "stroke-linejoin": "round",
      }),
    );
  if (level === "none")
    return s(
      "svg",
      { viewBox: "0 0 16 16", role: "img", "aria-label": said },
      s("circle", {
        cx: 8,
        cy: 8,
        r: 6.3,
        fill: "none",
        stroke: "var(--out)",
        "stroke-width": 1.4,
        "stroke-dasharray": "2.5 2",
      }),
    );
  const kind = level === "bad" ? "bad" : "warn";
  return s(
    "svg",
    { viewBox: "0 0 16 16", role: "img", "aria-label": said },
    s("path", { d: "M8 1.2L15.2 14H.8z", fill: `var(--${kind}-bg)`, stroke: `var(--${kind})`, "stroke-width": 1 }),
    s("path", { d: "M8 6v3.6M8 11.6v.2", stroke: `var(--${kind})`, "stroke-width": 1.8, "stroke-linecap": "round" }),
  );
};
const lost = (p) => (p.direction === "minimize" ? "paid too much at most" : "lost at most");

const OUTSTANDING = new RegExp(
  "(at most [\\d.,e+-]+\\d|the [\\d,]+ decisions|[\\d,]+ (?:is|are) certain(?: not)? to be" +
    "|known for certain|Nothing can be certified|nothing useful is certified yet)",
);

// The certificate's own words: bounds and counts stand out, and what must be true is said below, smaller.
function sentence(text) {
  const at = text.indexOf("All this takes"),
    said = at > 0 ? text.slice(0, at).trim() : text,
    needs = at > 0 ? text.slice(at) : "";
  const parts = said.split(OUTSTANDING);
  return [
    h(
      "p",
      null,
      parts.map((part, i) => (i % 2 ? h("b", null, part) : part)),
    ),
    needs && h("p", { class: "sub" }, needs),
  ];
}

function verdict(p) {
  const made = p.certificate,
    words = h("div", { id: "verdict-words" });
  const big = h("div", { class: "big" });
  const element = h(
    "section",
    { class: "card verdict", "aria-labelledby": "verdict" },
    h("div", null, h("h2", { id: "verdict" }, "What is known"), words),
    big,
  );
  const update = (now) => {
    const found = now.certificate;
    if (!found) {
      const why =
        now.status === "loading"
          ? "The policy is being loaded from its log; what is known comes with it."
          : `${now.kind} keeps no certificate: it says what to show, and not what that can have cost. ` +
            `${now.contexts ? "GuardedLinear" : "GuardedThompson"} says both.`;
      show(words, h("p", null, why));
      show(big, h("div", { class: "n" }, "–"), h("div", { class: "l" }, "no certificate"));
      return;
    }
    if (found.text && words.dataset.text !== found.text) {
      words.dataset.text = found.text;
      show(words, sentence(found.text));
    }
    const size = now.budget > 1 ? ` of ${whole(now.budget)}` : "";
    const silent = found.rounds > 0 && !found.informative && !found.contradictions;
    const why = found.contradictions
      ? "nothing is certified: means have changed"
      : found.rounds
        ? `${lost(now)}, per decision${size}`
        : "no decision yet";
    show(
      big,
      h("div", { class: silent ? "n silent" : "n", id: "big" }, found.each === null ? "–" : atMost(found.each)),
      h("div", { class: "l" }, why),
      silent
        ? h(
            "div",
            { class: "l", id: "needed" },
            found.needed === null
              ? "says nothing useful yet"
              : `says nothing useful yet; about ${whole(found.needed)} more decisions`,
          )
        : null,
    );
  };
  update(p, made);
  return { element, update };
}

function tiles(p, file) {
  const element = h("dl", { class: "tiles" });
  const tile = (name, value, unit, more) =>
    h(
      "div",
      { class: "tile" },
      h("dt", null, name),
      h("dd", { class: "v" }, value, unit ? h("small", null, unit) : null),
      h("dd", { class: "d" }, more),
    );
  const update = (now) => {
    const made = now.decisions ?? 0,
      found = now.certificate;
    const best = now.direction === "minimize" ? "the cheapest seem" : "the best seem";
    const account = found?.account,
      value = now.value;
    show(
      element,
      file
        ? tile("Decisions", whole(made), "", "in all")
        : tile("Decisions", digits(now.rates?.[0] ?? 0), " /s", `${whole(made)} in all`),
      file
        ? tile(
            "Items",
            whole(now.live),
            "",
            now.arms > now.live ? `${whole(now.arms - now.live)} retired` : "none retired",
          )
        : tile("Rewards", digits(now.rates?.[1] ?? 0), " /s", now.told == null ? "none in the last hour" : `told of ${percent(now.told)} of the last hour's decisions`),
      file
        ? null
        : tile(
            "Latency 99%",
            now.latency?.[1] === null || now.latency?.[1] === undefined ? "–" : digits(now.latency[1]),
            " ms",
            now.latency?.[0] == null ? "no request in a minute" : `50%: ${digits(now.latency[0], 2)} ms`,
          ),
      tile(
        "Open decisions",
        whole(now.open ?? 0),
        "",
        now.oldest === null || now.oldest === undefined
          ? file
            ? "when it was saved"
            : "none waits"
          : `oldest ${span(now.oldest)}`,
      ),
      value
        ? tile(
            `${now.direction === "minimize" ? "Cost" : "Reward"} per decision`,
            digits(value.each),
            "",
            `${best} ${digits(value.best)}`,
          )
        : tile("Items", whole(now.live ?? 0), "", `${whole(now.budget ?? 0)} in a decision`),
      account
        ? tile(
            "Forced decisions",
            whole(account.forced),
            "",
            account.spent === null || !account.allowed
              ? "account closed"
              : `account ${percent(Math.min(account.spent / account.allowed, 9.99))} spent`,
          )
        : tile("Log", whole(now.head ?? 0), "", "events"),
    );
  };
  update(p);
  return { element, update };
}

function charts(p, act) {
  const loss = h("div"),
    triage = h("div"),
    range = h("div"),
    made = {};
  const element = [
    card("c7", "loss", heading("loss", "Certified loss per decision", null, range), loss),
    p.contexts
      ? null
      : card("c5", "triage", heading("triage", "Triage", "Items settled for good, by decisions made"), triage),
  ];
  const said = element[0].querySelector(".head > div");
  const update = (now) => {
    if (loss.matches(":hover") || triage.matches(":hover")) return; // somebody reads it
    const found = now.certificate,
      points = (now.course ?? []).slice(),
      last = points.at(-1);
    if (found?.rounds && (!last || found.rounds > last[0]))
      points.push([found.rounds, 0, found.total, found.estimate, ...(now.triage ?? [null, null, null])]);
    show(
      said,
      h("h2", { id: "loss" }, "Certified loss per decision"),
      h(
        "p",
        { class: "sub" },
        found
          ? `In the band with ${sureness(found.confidence)} confidence at all times` +
              `${found.estimate === null ? "" : "; dashed: the estimate"}`
          : "What decisions can have lost, over time",
      ),
    );
    show(
      range,
      segments(
        "Range",
        [
          ["", "recent"],
          ["all", "all"],
        ],
        act.chosen("range"),
        (value) => act.choose({ range: value }),
      ),
    );
    made.loss = lossChart(points, act.chosen("range") === "all");
    made.triage = triageChart(points);
    const none = !found
      ? [`${now.kind ?? "This policy"} has no certificate`, "So there is no bound to draw."]
      : found.contradictions
        ? ["The certificate is withdrawn", "Means have changed, so no bound holds for all decisions together."]
        : [
            "No history yet",
            now.decisions
              ? "The first points come with the next decisions."
              : "The first point comes with the first decision.",
          ];
    if (made.loss.empty) show(loss, empty(...none));
    else {
      if (!loss.contains(loss.figure)) {
        show(loss, made.loss.host, h("div", { class: "under" }, h("span"), made.loss.table));
      } else {
        loss.figure.replaceWith(made.loss.host);
        keepTable(loss, made.loss.table);
      }
      loss.figure = made.loss.host;
    }
    const settled = now.triage && now.triage[0] + now.triage[2];
    if (made.triage.empty || !settled)
      show(
        triage,
        empty(
          ...(made.triage.empty
            ? none
            : [
                "Nothing is settled yet",
                `All ${plural(now.live, "item")} may still be among the best, and may not. ` +
                  `The table says what keeps each of them open.`,
              ]),
        ),
      );
    else {
      const keys = h(
        "div",
        { class: "legend" },
        [
          ["sure", "confirmed"],
          ["open", "open"],
          ["out", "eliminated"],
        ].map(([kind, name]) => h("span", null, h("i", { class: `k-${kind}` }), name)),
      );
      if (!triage.contains(triage.figure))
        show(triage, made.triage.host, h("div", { class: "under" }, keys, made.triage.table));
      else {
        triage.figure.replaceWith(made.triage.host);
        keepTable(triage, made.triage.table);
      }
      triage.figure = made.triage.host;
    }
    draw();
  };
  const draw = () => {
    made.loss?.draw();
    made.triage?.draw();
  };
  return { element, update, draw, start: () => update(p) };
}
// New numbers for a table beside a chart; it stays open if it was.
function keepTable(host, fresh) {
  const old = host.querySelector("details.data");
  if (old?.open) old.querySelector(".scroll").replaceWith(fresh.querySelector(".scroll"));
  else old?.replaceWith(fresh);
}

function liftPart(p) {
  if (!p.lift) return null;
  const words = h("div"),
    figure = h("div"),
    more = h("ul", { class: "checks" }),
    sub = h("p", { class: "sub" });
  let made = null;
  const element = card(
    "",
    "lift",
    h("div", { class: "head" }, h("div", null, h("h2", { id: "lift" }, "Against the control"), sub)),
    words,
    figure,
    more,
  );
  const update = (now) => {
    const found = now.lift;
    if (!found || figure.matches(":hover")) return; // somebody reads it
    const points = found.points.slice(),
      band = `in the band with ${sureness(1 - found.alpha)} confidence at all times`,
      watching = now.observing && !now.observing.switched;
    if (found.controls && found.share_ok && found.decisions > (points.at(-1)?.[0] ?? 0))
      points.push([found.decisions, 0, found.lift, found.low, found.high]);
    show(
      sub,
      watching
        ? "Another system decides: nothing is compared yet"
        : found.in_force
        ? "An alarm went off: every decision is the control's until the policy is resumed"
        : `${sureness(found.share)} of decisions, by ${found.by}; ${band}`,
    );
    show(words, watching ? null : h("p", null, found.text));
    made = points.length ? liftChart(points) : { empty: true };
    if (made.empty)
      show(
        figure,
        watching
          ? empty("No groups yet", "They are drawn once the policy decides.")
          : empty("No history yet", "Decisions count when all older ones have their rewards, or their time has passed."),
      );
    else show(figure, made.host, h("div", { class: "under" }, h("span"), made.table));
    show(
      more,
      found.metrics.map(([name, mine, other, breached, text]) =>
        h(
          "li",
          null,
          icon(breached ? "bad" : "ok"),
          h("div", null, name, h("small", null, text)),
          h(
            "span",
            { class: "v" },
            `${mine === null ? "–" : digits(mine)}, control ${other === null ? "–" : digits(other)}`,
          ),
        ),
      ),
    );
    made.draw?.();
  };
  return { element, update, draw: () => made?.draw?.(), start: () => update(p) };
}

function observingPart(p) {
  if (!p.observing) return null;
  const words = h("div"),
    sub = h("p", { class: "sub" });
  const element = card(
    "",
    "observing",
    h("div", { class: "head" }, h("div", null, h("h2", { id: "observing" }, "Watching another system"), sub)),
    words,
  );
  const update = (now) => {
    const found = now.observing;
    if (!found) return;
    const { switched, weighted } = found,
      who = switched?.rule ? `its rule ${switched.rule}` : switched?.by || "hand";
    show(
      sub,
      switched
        ? `It took over by ${who}, with event ${switched.seq}`
        : "Another system decides; the policy learns and says what it would show",
    );
    const earned = found.old_mean === null ? "" : `A decision earned ${digits(found.old_mean)}`,
      would = weighted ? `; its own would have earned ${digits(weighted.dr)} (DR), ${digits(weighted.ips)} (IPS)` : "";
    show(words, h("p", null, found.text), earned ? h("p", null, `${earned}${would}.`) : null);
  };
  return { element, update, start: () => update(p) };
}

const FATES = [
  ["applied", "sure"],
  ["late", "open"],
  ["duplicate", "accent"],
  ["orphan", "open"],
  ["rejected", "bad"],
  ["conflict", "bad"],
];
function fatesPart(p) {
  const list = h("dl", { class: "fates" }),
    sub = h("p", { class: "sub" });
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "fates" },
    h("div", { class: "head" }, h("div", null, h("h2", { id: "fates" }, "Rewards by fate"), sub)),
    list,
  );
  const update = (now) => {
    const t = now.totals ?? {},
      all = FATES.reduce((sum, [name]) => sum + (t[name] ?? 0), 0);
    show(sub, all ? `${whole(all)} received, each with one fate` : "No reward has come yet");
    show(
      list,
      FATES.map(([name, kind]) =>
        h(
          "div",
          null,
          h("dt", null, name),
          h(
            "dd",
            { class: "b" },
            h("i", {
              class: `k-${kind}`,
              style: { width: `${all ? Math.max((100 * (t[name] ?? 0)) / all, t[name] ? 1.5 : 0) : 0}%` },
            }),
          ),
          h("dd", { class: "num" }, whole(t[name] ?? 0)),
        ),
      ),
    );
  };
  update(p);
  return { element, update };
}

function healthPart(p) {
  const list = h("ul", { class: "checks" });
  const element = h("section", { class: "card", "aria-labelledby": "health" }, heading("health", "Health", null), list);
  const update = (now) =>
    show(
      list,
      (now.health ?? []).map((one) =>
        h(
          "li",
          null,
          icon(one.level),
          h("div", null, one.title, h("small", null, one.detail)),
          h("span", { class: "v" }, one.at ? clock(one.at / 1000, false) : ""),
        ),
      ),
    );
  update(p);
  return { element, update };
}

function trafficPart(p) {
  const left = h("div"),
    right = h("div"),
    made = {};
  const keys = (list) =>
    h(
      "div",
      { class: "legend" },
      list.map(([kind, name]) => h("span", null, h("i", { class: `k-${kind}` }), name)),
    );
  const element = [
    card(
      "c6",
      "traffic",
      heading(
        "traffic",
        "Traffic",
        "Per second, in the last 90 minutes",
        keys([
          ["accent", "decisions"],
          ["sure", "rewards"],
        ]),
      ),
      left,
    ),
    card(
      "c6",
      "latency",
      heading(
        "latency",
        "Decide latency",
        "Milliseconds to the stored answer, in the last 90 minutes",
        keys([
          ["open", "99%"],
          ["accent", "50%"],
        ]),
      ),
      right,
    ),
  ];
  const place = (host, chart, why) => {
    if (chart.empty) show(host, empty(...why));
    else if (host.figure && host.contains(host.figure)) {
      host.figure.replaceWith(chart.host);
      keepTable(host, chart.table);
    } else show(host, chart.host, h("div", { class: "under" }, h("span"), chart.table));
    host.figure = chart.host;
  };
  const update = (now) => {
    const t = now.traffic;
    if (!t || left.matches(":hover") || right.matches(":hover")) return;
    made.left = minutesChart(
      "Decisions and rewards per second",
      t.from,
      [
        { name: "decisions", kind: "accent", values: t.decisions },
        { name: "rewards", kind: "sure", values: t.rewards },
      ],
      "",
      now.created,
    );
    made.right = minutesChart(
      "Decide latency in milliseconds",
      t.from,
      [
        { name: "99%", kind: "open", values: t.latency.map((one) => one[1]) },
        { name: "50%", kind: "accent", values: t.latency.map((one) => one[0]) },
      ],
      " ms",
      t.began,
    );
    place(left, made.left, [
      "No traffic",
      "No decision and no reward in the last 90 minutes that are over; this minute counts when it is over.",
    ]);
    place(right, made.right, [
      "No latencies yet",
      `They are kept while the server runs, minute by minute, since ${clock(t.began, false)}.`,
    ]);
    draw();
  };
  const draw = () => {
    made.left?.draw();
    made.right?.draw();
  };
  return { element, update, draw, start: () => update(p) };
}

const LOGS = [
  ["", "all"],
  ["decision", "decisions"],
  ["reward", "rewards"],
  ["change", "changes"],
  ["warns", "warnings"],
];
function logPart(p, act) {
  const list = h("ol", { class: "log", tabindex: "0", "aria-label": "Log, newest first" }),
    filter = h("div");
  const element = card(
    "",
    "log",
    heading("log", "Log", "Newest first, live; of a busy second some lines are left out", filter),
    list,
  );
  const update = (now) => {
    const chosen = act.chosen("log");
    show(
      filter,
      segments("Filter", LOGS, chosen, (value) => act.choose({ log: value })),
    );
    const lines = (now.log ?? []).filter((one) => (chosen === "warns" ? one.warns : !chosen || one.kind === chosen));
    show(
      list,
      lines.length
        ? lines.map((one) =>
            h(
              "li",
              { class: one.warns ? "warns" : null },
              h("time", { datetime: new Date(one.at).toISOString() }, clock(one.at)),
              h("span", { class: "seq" }, one.seq ? whole(one.seq) : ""),
              h("b", { class: one.kind }, one.kind),
              one.key ? h("span", { class: "seq wide" }, one.key) : null,
              h("span", { class: "x", title: one.text }, one.text),
            ),
          )
        : h(
            "li",
            null,
            (now.log ?? []).length ? "Nothing of this kind among the last lines." : "Nothing has happened yet.",
          ),
    );
  };
  update(p);
  return { element, update };
}

function contextsPart(p) {
  const found = p.contexts;
  if (!found) return null;
  const count = whole(found.dimension),
    many = found.weights.length < found.dimension ? `The largest ${found.weights.length} of ${count}` : `All ${count}`;
  const list = h("dl", { class: "weights" });
  const element = card(
    "c5",
    "weights",
    heading(
      "weights",
      "Contexts",
      `${many} weights: what one unit of a feature adds to the mean reward, by a ridge regression`,
    ),
    list,
  );
  const update = (now) => {
    const weights = now.contexts?.weights ?? found.weights,
      most = Math.max(...weights.map(([, v]) => Math.abs(v)), 1e-12);
    show(
      list,
      weights.map(([place, v]) =>
        h(
          "div",
          null,
          h("dt", null, `feature ${place}`),
          h(
            "dd",
            { class: "b" },
            h("i", {
              class: v < 0 ? "k-open" : "k-accent",
              style: {
                width: `${(50 * Math.abs(v)) / most}%`,
                left: v < 0 ? `${50 - (50 * Math.abs(v)) / most}%` : "50%",
              },
            }),
          ),
          h("dd", { class: "num" }, digits(v)),
        ),
      ),
    );
  };
  update(p);
  return { element, update };
}

function setsPart(p) {
  if (!p.sets) return null;
  const body = h("div");
  const element = card("", "sets", heading("sets", "Decision set", null), body);
  const update = (now) => {
    const f = now.sets ?? p.sets,
      better = now.direction === "minimize" ? "cheaper" : "better",
      alone = (one) => new Set(one.names);
    const side = (name, of, only) =>
      h(
        "div",
        null,
        h("h3", null, name),
        h(
          "ul",
          null,
          of.names.map((one) => h("li", { class: alone(only).has(one) ? "only" : null }, one)),
          of.more ? h("li", null, `and ${whole(of.more)} more`) : null,
        ),
      );
    const settled = !f.entering.names.length && !f.leaving.names.length;
    const said = settled
      ? "No allowed decision may be better than the incumbent."
      : `The challenger may still be ${better} by up to ${atMost(f.bound)}; ` +
        "the items in which the two differ are marked.";
    show(
      body,
      h("p", { class: "sub" }, `${f.family}. ${said}`),
      h(
        "div",
        { class: "sides", style: { "margin-top": "10px" } },
        side("Incumbent: what is best by the means so far", f.incumbent, f.leaving),
        settled ? null : side("Challenger: what may still be better", f.challenger, f.entering),
      ),
    );
  };
  update(p);
  return { element, update };
}
