// The pages: each is made from its facts, and returns what brings it up to date.
function alarms(list) {
  if (!list.length) return h("span", { class: "sub" }, "none");
  const worst = list.some(([level]) => level === "bad") ? "bad" : "warn";
  return h(
    "span",
    { class: `chip ${worst}`, title: list.map(([, name]) => name).join("; ") },
    list.length === 1 ? list[0][1] : `${list[0][1]} and ${list.length - 1} more`,
  );
}
function triageBar(counts) {
  if (!counts) return h("span", { class: "sub" }, "–");
  const [sure, open, out] = counts,
    all = sure + open + out || 1;
  return h(
    "div",
    { class: "split", role: "img", "aria-label": `${sure} confirmed, ${open} open, ${out} eliminated` },
    [
      ["sure", sure],
      ["open", open],
      ["out", out],
    ].map(([kind, n]) => (n ? h("i", { class: `k-${kind}`, style: { width: `${(100 * n) / all}%` } }) : null)),
  );
}

function policiesPage(facts, act) {
  const body = h("tbody"),
    said = h("p", { class: "sub" }),
    pager = h("div", { class: "pager" });
  let rows = facts.policies.rows;
  const heads = [
    ["policy"],
    ["status", "wide"],
    ["decisions /s", "num wide"],
    ["lost at most, each", "num"],
    ["triage", "wide"],
    ["alarms", "wide"],
  ];
  const listed = h(
    "section",
    { class: "card", "aria-label": "All policies" },
    table(heads, body),
    pager,
  );
  const none = h(
    "section",
    { class: "card" },
    empty(
      "No policy yet",
      "A policy chooses some of its items for every request, and learns from what comes of it. Make one:",
    ),
    h(
      "pre",
      { tabindex: "0" },
      h(
        "code",
        null,
        `curl -s -XPOST ${location.origin}/v1/policies -d '{"name": "front-page", "budget": 2, ` +
          `"arms": ["night-train", "harbour-bridge", "lost-dog", "quiet-inflation"]}'`,
      ),
    ),
  );
  const state = (one) =>
    h(
      "span",
      { class: `chip ${one.ready ? (STATUS[one.status] ?? "plain") : "warn"}` },
      one.ready ? one.status : one.status === "loading" ? "loading" : "not answering",
    );
  const draw = () => {
    show(
      said,
      rows.length
        ? `${plural(facts.policies.total, "policy", "policies")} on this server. Lost at most: certified, per decision.`
        : "",
    );
    listed.hidden = !rows.length;
    none.hidden = rows.length > 0;
    show(
      body,
      rows.map((one) =>
        h(
          "tr",
          { class: "row" },
          h(
            "td",
            { class: "wrap" },
            h("a", { href: `/policies/${encodeURIComponent(one.name)}`, "data-key": one.name }, h("b", null, one.name)),
            h(
              "div",
              { class: "sub" },
              `${one.budget ? `${whole(one.budget)} of ` : ""}` +
                `${plural(one.arms, "item")} · ${one.kind} · ${plural(one.decisions, "decision")}`,
            ),
            h(
              "div",
              { class: "narrow chips" },
              state(one),
              h("span", { class: "sub" }, `${digits(one.rate)} /s`),
              one.alarms.length ? alarms(one.alarms) : null,
            ),
            one.triage ? h("div", { class: "narrow" }, triageBar(one.triage)) : null,
          ),
          h("td", { class: "wide" }, state(one)),
          h("td", { class: "num wide" }, digits(one.rate)),
          h(
            "td",
            { class: "num" },
            one.each === null
              ? h("span", { class: "sub" }, !one.certified ? "no certificate" : !one.decisions ? "–" : one.informative ? "withdrawn" : "nothing yet")
              : h("b", null, atMost(one.each)),
          ),
          h("td", { class: "wide", style: { width: "22%" } }, triageBar(one.triage)),
          h("td", { class: "wide" }, alarms(one.alarms)),
        ),
      ),
    );
    const { page, pages } = facts.policies,
      to = (at, name) =>
        h(
          "button",
          {
            type: "button",
            disabled: at < 0 || at >= pages,
            on: { click: () => act.choose({ page: at ? String(at) : "" }, true) },
          },
          name,
        );
    pager.hidden = pages < 2;
    show(
      pager,
      h("span", null, `Page ${page + 1} of ${pages}`),
      h("span", { class: "tools" }, to(page - 1, "Before"), to(page + 1, "Next")),
    );
  };
  draw();
  show($("main"), h("div", { class: "title" }, h("div", null, h("h1", null, "Policies"), said)), listed, none);
  return {
    stream: "",
    every: 60,
    fresh: (now) => {
      facts = now;
      rows = now.policies.rows;
      draw();
    },
    live(doc) {
      const by = new Map(doc.rows.map((one) => [one.name, one]));
      const before = rows;
      rows = rows.map((one) => by.get(one.name) ?? one);
      if (doc.total !== facts.policies.total) act.refresh();
      else if (before !== rows) draw();
    },
  };
}

function policyPage(facts, act) {
  const main = $("main"),
    file = Boolean(facts.file),
    metrics = h("a", { href: "/metrics" }, "metrics");
  if (!facts.known) {
    show(
      main,
      h("div", { class: "title" }, h("div", null, h("h1", null, facts.name))),
      h(
        "section",
        { class: "card" },
        empty("There is no policy of this name", "It may have been dropped, or the address has a mistake."),
        h("p", { class: "empty" }, h("a", { href: "/" }, "All policies")),
      ),
    );
    return {};
  }
  let p = { ...facts.policy, file };
  const chips = h("div", { class: "chips" }),
    sub = h("p", { class: "sub" });
  const drawChips = () => {
    const bad = p.alarms
      ? p.alarms
      : (p.health ?? [])
          .filter((one) => one.level === "warn" || one.level === "bad")
          .map((one) => [one.level, one.title]);
    const same = (p.health ?? []).find((one) => one.title === "State equals its log"),
      name = encodeURIComponent(p.name),
      may = act.may("admin");
    const state = p.ready === false && p.status !== "loading" ? "not answering" : p.status,
      kind = p.ready === false ? "warn" : (STATUS[p.status] ?? "plain");
    const paused = p.status === "paused" || p.status === "control",
      resumed = p.observing && !p.observing.switched ? "observing" : "running", // what it was
      off = !may || p.status === "archived" || p.ready === false;
    const menu =
      p.status === "loading" || file
        ? null
        : (chips.querySelector(".menu") ??
          h(
            "details",
            { class: "menu" },
            h("summary", { "data-key": "export" }, "Export"),
            h(
              "div",
              null,
              h(
                "a",
                { href: `/dashboard/items.csv/${name}`, download: "" },
                "Items",
                h("small", null, "CSV, all of them with their reasons"),
              ),
              h(
                "a",
                { href: `/v1/policies/${name}/export.parquet`, download: `${p.name}.parquet` },
                "Decisions and rewards",
                h("small", null, "Parquet, the first 100,000"),
              ),
              h(
                "a",
                { href: `/v1/policies/${name}/events?limit=1000000`, download: `${p.name}.jsonl` },
                "Log",
                h("small", null, "lines of JSON, the first million"),
              ),
            ),
          ));
    show(
      chips,
      h("span", { class: `chip ${kind}` }, state === "running" ? "● running" : state),
      same ? h("span", { class: "chip ok" }, "replay matches") : null,
      bad.length
        ? h(
            "a",
            {
              href: "#health",
              "data-key": "alarms",
              class: `chip ${bad.some(([level]) => level === "bad") ? "bad" : "warn"}`,
              title: bad.map(([, one]) => one).join("; "),
            },
            plural(bad.length, "alarm"),
          )
        : null,
      file
        ? null
        : h(
            "button",
            {
              type: "button",
              disabled: off,
              title: may ? null : "Your key may read only; this needs the scope admin.",
              "data-key": "pause",
              on: { click: () => act.pause(p.name, paused, resumed) },
            },
            paused ? "Resume" : "Pause",
          ),
      menu,
    );
    const size = p.budget ? `${p.sets ? "up to " : ""}${whole(p.budget)} of ${plural(p.live ?? 0, "item")}` : "";
    show(
      sub,
      [
        size,
        p.kind,
        p.feedback && p.feedback !== "semi_bandit" ? `feedback: ${p.feedback.replace("_", " ")}` : "",
        p.created ? `since ${when(p.created, p.now)}` : "",
        p.window ? `rewards may come for ${p.window}` : "",
      ]
        .filter(Boolean)
        .join(" · "),
    );
  };
  drawChips();
  const parts = [];
  const add = (part) => {
    if (part) parts.push(part);
    return part?.element;
  };
  const loading = p.status === "loading" && !p.items;
  show(
    main,
    h("div", { class: "title" }, h("div", null, h("h1", null, p.name), sub), chips),
    loading
      ? h(
          "section",
          { class: "card" },
          empty(
            "The policy is being loaded",
            p.problem === "store"
              ? "The store does not answer; the state is rebuilt when it does."
              : "Its state is made from the log, and its kernels are compiled. This page shows it when it is ready.",
          ),
        )
      : null,
    loading ? null : add(verdict(p)),
    loading ? null : add(tiles(p, file)),
    loading || file ? null : add(charts(p, act)),
    loading || file ? null : add(observingPart(p)),
    loading || file ? null : add(liftPart(p)),
    loading ? null : add(contextsPart(p)),
    loading ? null : add(setsPart(p)),
    loading ? null : add(itemsPart(p, act)),
    file
      ? h(
          "div",
          { class: "c4 stack" },
          h(
            "section",
            { class: "card", "aria-labelledby": "file" },
            heading("file", "A saved policy", null),
            h(
              "dl",
              { class: "facts" },
              h("dt", null, "File"),
              h("dd", null, facts.file.name),
              h("dt", null, "Saved"),
              h("dd", null, `${day(facts.file.saved)} ${clock(facts.file.saved)}`),
              h("dt", null, "Seed"),
              h("dd", null, String(facts.file.seed)),
              h("dt", null, "Digest"),
              h("dd", null, h("code", null, facts.file.digest.slice(0, 16))),
            ),
            h(
              "p",
              { class: "sub" },
              "This page follows the file: when it is saved again, the numbers change. " +
                "A file holds what was learned, and not how: history, traffic, fates of rewards, health and the log " +
                "are there for policies that armtriage serve runs.",
            ),
          ),
        )
      : h("div", { class: "c4 stack" }, add(fatesPart(p)), add(healthPart(p))),
    file ? null : add(trafficPart(p)),
    file ? null : add(logPart(p, act)),
    h(
      "div",
      { class: "foot" },
      h("span", { id: "foot" }),
      file ? null : h("span", null, h("a", { href: "/openapi.json" }, "OpenAPI"), " · ", metrics),
    ),
  );
  const foot = () =>
    show($("foot"), `armtriage ${facts.version}${p.head === undefined || file ? "" : ` · event ${whole(p.head)}`}`);
  const update = () => {
    drawChips();
    foot();
    for (const part of parts) part.update(p);
  };
  for (const part of parts) part.start?.();
  foot();
  let shown = p.head;
  return {
    stream: p.name,
    every: 60,
    itemsEvery: 15,
    draw() {
      for (const part of parts) part.draw?.();
    },
    changed: () => p.head !== shown,
    fresh(now) {
      if (!now.known || (loading && now.policy.items)) {
        act.reload(now);
        return;
      }
      facts = now;
      // While a policy is loaded again, what was known before stays.
      const { status, ready, problem, health } = now.policy;
      p = now.policy.items
        ? { ...p, alarms: undefined, ...now.policy, file }
        : { ...p, status, ready, problem, health };
      shown = p.head;
      update();
    },
    items(found) {
      p = { ...p, items: found };
      shown = p.head;
      update();
    },
    chosen() {
      update();
    },
    live(doc) {
      if (loading && doc.status !== "loading") {
        act.refresh();
        return;
      }
      if (doc.status === "loading") {
        p = { ...p, status: doc.status, ready: doc.ready, problem: doc.problem };
        update();
        return;
      }
      const seen = new Set((p.log ?? []).map((one) => `${one.seq} ${one.at} ${one.kind}`)),
        fresh = (doc.log ?? []).filter((one) => !seen.has(`${one.seq} ${one.at} ${one.kind}`));
      const made =
        doc.certificate && doc.certificate.text === null
          ? { ...doc.certificate, text: p.certificate?.text }
          : doc.certificate;
      const before = JSON.stringify(
        p.alarms ??
          (p.health ?? [])
            .filter((one) => one.level === "warn" || one.level === "bad")
            .map((one) => [one.level, one.title]),
      );
      const wanted =
        before !== JSON.stringify(doc.alarms) ||
        doc.status !== p.status ||
        doc.arms !== p.arms ||
        doc.live !== p.live;
      p = {
        ...p,
        ...doc,
        certificate: made,
        log: [...fresh, ...(p.log ?? [])].sort((a, b) => b.at - a.at || b.seq - a.seq).slice(0, 50),
      };
      const course = p.course ?? [],
        last = course.at(-1);
      if (made?.rounds && (!last || made.rounds > 1.03 * last[0]))
        p.course = [...course, [made.rounds, 0, made.total, made.estimate, ...(doc.triage ?? [null, null, null])]];
      update();
      if (wanted) act.refresh();
    },
  };
}

function keysPage(facts, act) {
  const main = $("main"),
    title = h(
      "div",
      { class: "title" },
      h("div", null, h("h1", null, "Keys"), h("p", { class: "sub" }, "Who may ask, tell, read and change")),
    );
  if (!facts.keys) {
    show(
      main,
      title,
      h(
        "section",
        { class: "card" },
        empty(
          "Your key may not see the others",
          "This page needs the scope admin. On the server's machine, armtriage key list shows them.",
        ),
      ),
    );
    return {};
  }
  const rows = facts.keys.rows,
    boxes = ["read", "decide", "reward", "admin"].map((one) =>
      h("label", null, h("input", { type: "checkbox", name: one, checked: one === "read" }), one),
    );
  const label = h("input", { type: "text", maxlength: 64, name: "label" }),
    rate = h("input", { type: "number", min: 0, value: 100, name: "rate" }),
    problem = h("p", { class: "problem", role: "alert" });
  const form = h(
    "form",
    {
      class: "form",
      on: {
        submit: (event) => {
          event.preventDefault();
          act.makeKey(
            boxes
              .map((one) => one.firstChild)
              .filter((one) => one.checked)
              .map((one) => one.name),
            label.value,
            Number(rate.value),
            problem,
          );
        },
      },
    },
    h("label", null, "What it is for", label),
    h("div", { role: "group", "aria-label": "Scopes", class: "checksrow" }, boxes),
    h("label", null, "Requests a second, 0 for any number", rate),
    problem,
    h("div", null, h("button", { class: "main", type: "submit" }, "Make a key")),
  );
  const list = rows.length
    ? table(
        [
          ["key"],
          ["for", "wide"],
          ["scopes"],
          ["requests /s", "num wide"],
          ["made", "wide"],
          ["state"],
          [h("span", { class: "quiet" }, "Actions")],
        ],
        h(
          "tbody",
          null,
          rows.map((one) =>
            h(
              "tr",
              { class: "row" },
              h("td", null, h("code", null, one.id)),
              h("td", { class: "wide wrap" }, one.label || "–"),
              h("td", { class: "wrap" }, one.scopes.join(", ")),
              h("td", { class: "num wide" }, one.rate ? digits(one.rate) : "any"),
              h("td", { class: "wide" }, day(one.created)),
              h(
                "td",
                null,
                h("span", { class: `chip ${one.revoked ? "plain" : "ok"}` }, one.revoked ? "revoked" : "good"),
              ),
              h(
                "td",
                { class: "num" },
                one.revoked
                  ? null
                  : h(
                      "button",
                      {
                        type: "button",
                        class: "danger",
                        "aria-label": `Revoke key ${one.id}`,
                        on: { click: () => act.revoke(one.id) },
                      },
                      "Revoke",
                    ),
              ),
            ),
          ),
        ),
      )
    : empty(
        "There is no key",
        "So anyone on this machine may do everything, and no one else anything. " +
          "From the first key on every request needs one.",
      );
  show(
    main,
    title,
    card(
      "c8",
      "all-keys",
      heading("all-keys", "All keys", "Only their digests are stored; a key is shown once, when it is made"),
      list,
    ),
    card(
      "c4",
      "new-key",
      heading(
        "new-key",
        "New key",
        rows.length ? null : "The first one should have the scopes read and admin, so that this page stays yours",
      ),
      form,
    ),
  );
  return {};
}

function systemPage(facts) {
  const main = $("main"),
    body = h("div"),
    answers = h("dl", { class: "facts" }),
    policies = h("div"),
    store = h("dl", { class: "facts" });
  const row = (list) => list.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)]);
  const draw = (now) => {
    const y = now.system,
      kept = y.store;
    show(
      body,
      h(
        "dl",
        { class: "facts" },
        row([
          ["Version", y.version],
          ["Running for", span((y.now - y.began) / 1000)],
          ["Policies", `${plural(y.policies, "policy", "policies")}, ${y.ready ? "all ready" : "not all ready"}`],
          ["Listeners", plural(y.watchers, "open page")],
        ]),
      ),
    );
    show(
      store,
      Object.keys(kept).length
        ? row([
            ["Kind", kept.kind === "sqlite" ? `SQLite, synced ${kept.synchronous}` : String(kept.kind ?? "")],
            ...(kept.file ? [["File", kept.file]] : []),
            ...(kept.bytes !== undefined ? [["Size", bytes(kept.bytes)]] : []),
            ...(kept.journal_bytes !== undefined ? [["Journal", bytes(kept.journal_bytes)]] : []),
            ...(kept.disk_free !== undefined ? [["Disk free", percent(kept.disk_free)]] : []),
            ...Object.entries(kept)
              .filter(
                ([name]) => !["kind", "file", "bytes", "journal_bytes", "disk_free", "synchronous"].includes(name),
              )
              .map(([name, value]) => [name.replaceAll("_", " "), String(value)]),
          ])
        : row([["State", "It does not answer."]]),
    );
    show(
      answers,
      Object.keys(y.answers).length
        ? row(Object.entries(y.answers).map(([code, many]) => [code, whole(many)]))
        : row([["None", "No request has been answered yet."]]),
    );
    show(
      policies,
      y.rows.length
        ? table(
            [
              ["policy"],
              ["state"],
              ["decisions /s", "num"],
              ["waiting", "num wide"],
              ["commit 50% / 99%", "num"],
              ["a group", "num wide"],
              ["events", "num wide"],
              ["since snapshot", "num wide"],
            ],
            h(
              "tbody",
              null,
              y.rows.map((one) =>
                h(
                  "tr",
                  { class: "row" },
                  h("td", { class: "wrap" }, h("a", { href: `/policies/${encodeURIComponent(one.name)}` }, one.name)),
                  h(
                    "td",
                    null,
                    h(
                      "span",
                      { class: `chip ${one.ready ? "ok" : "warn"}` },
                      one.ready ? "ready" : one.problem || "loading",
                    ),
                  ),
                  h("td", { class: "num" }, digits(one.rate)),
                  h("td", { class: "num wide" }, whole(one.queue)),
                  h(
                    "td",
                    { class: "num" },
                    one.commit[0] === null ? "–" : `${digits(one.commit[0], 2)} / ${digits(one.commit[1], 2)} ms`,
                  ),
                  h("td", { class: "num wide" }, digits(one.group, 2)),
                  h("td", { class: "num wide" }, whole(one.head)),
                  h("td", { class: "num wide" }, whole(one.lag)),
                ),
              ),
            ),
          )
        : empty("No policy yet", "This table has a line for each."),
    );
  };
  draw(facts);
  show(
    main,
    h(
      "div",
      { class: "title" },
      h(
        "div",
        null,
        h("h1", null, "System"),
        h("p", { class: "sub" }, "The server, its store, and how fast it is; commits are those of the last minute"),
      ),
    ),
    card("c4", "server", heading("server", "Server", null), body),
    card("c4", "store", heading("store", "Store", null), store),
    card("c4", "answers", heading("answers", "Answers by status", "Since the server started"), answers),
    card("", "loops", heading("loops", "Policies", null), policies),
  );
  return { stream: "", every: 5, fresh: draw };
}

function signInPage(facts, act) {
  const key = h("input", {
      type: "password",
      name: "key",
      autocomplete: "current-password",
      required: true,
      id: "key",
    }),
    problem = h("p", { class: "problem", role: "alert" });
  const why =
    facts.reason === "scope"
      ? "The key that you signed in with may not read."
      : "This service has keys. Give one with the scope read; " +
        "with admin it also pauses policies, retires items and manages keys.";
  const form = h(
    "form",
    {
      class: "form",
      on: {
        submit: (event) => {
          event.preventDefault();
          act.signIn(key.value, problem);
        },
      },
    },
    h("label", { for: "key" }, "Key", key),
    problem,
    h("div", null, h("button", { class: "main", type: "submit" }, "Sign in")),
  );
  show(
    $("main"),
    h("div", { class: "title" }, h("div", null, h("h1", null, "Sign in"))),
    card(
      "",
      "sign",
      heading("sign", "Sign in", why),
      form,
      h(
        "p",
        { class: "sub", style: { "margin-top": "14px" } },
        "A key is made by armtriage key new --scope read. " +
          "The browser keeps it for twelve hours, out of reach of scripts.",
      ),
    ),
  );
  key.focus();
  return {};
}
