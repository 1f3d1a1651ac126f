// The table of items: search, sort and filter go by the address, and a row says why its item is where it is.
function itemsPart(p, act) {
  const body = h("tbody"),
    line = h("p", { class: "sub" }),
    heads = h("tr"),
    pager = h("div", { class: "pager" });
  const search = h("input", {
    type: "search",
    placeholder: "Search items",
    "aria-label": "Search items by name",
    maxlength: 128,
    value: act.chosen("search"),
    "data-key": "search",
  });
  let wait = 0;
  search.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(() => act.choose({ search: search.value, page: "" }), 250);
  });
  const state = h(
    "select",
    { "aria-label": "Show items in this state", "data-key": "state" },
    [
      ["", "all states"],
      ["open", "open"],
      ["confirmed", "confirmed"],
      ["eliminated", "eliminated"],
      ["retired", "retired"],
    ].map(([value, name]) => h("option", { value, selected: value === act.chosen("state") }, name)),
  );
  state.addEventListener("change", () => act.choose({ state: state.value, page: "" }));
  const element = card(
    "c8",
    "items",
    h(
      "div",
      { class: "head" },
      h("div", null, h("h2", { id: "items" }, "Items"), line),
      h("div", { class: "tools" }, search, state),
    ),
    h("table", { "aria-labelledby": "items" }, h("thead", null, heads), body),
    pager,
  );
  const head = (sort, name, kind) => {
    const here = (act.chosen("sort") || "mean") === sort,
      up = act.chosen("up") === "1",
      rising = sort === "name" ? !up : up;
    return h(
      "th",
      { scope: "col", class: kind, "aria-sort": here ? (rising ? "ascending" : "descending") : null },
      h(
        "button",
        {
          type: "button",
          "data-key": `sort ${sort}`,
          on: { click: () => act.choose({ sort: sort === "mean" ? "" : sort, up: here && !up ? "1" : "", page: "" }) },
        },
        name,
        here ? (rising ? " ↑" : " ↓") : "",
      ),
    );
  };
  const row = (one, found, now) => {
    const open = act.chosen("item") === one.id;
    const first = h(
      "tr",
      { class: "row" },
      h(
        "td",
        { class: "name" },
        h(
          "button",
          {
            type: "button",
            "aria-expanded": String(open),
            "data-key": `item ${one.id}`,
            title: one.id,
            on: { click: () => act.choose({ item: open ? "" : one.id }) },
          },
          s(
            "svg",
            { viewBox: "0 0 8 8", class: "turn", "aria-hidden": "true" },
            s("path", { d: "M2 .8L6 4 2 7.2", fill: "none", class: "s-soft", "stroke-width": 1.4 }),
          ),
          one.state && h("i", { class: "narrow" }, mark(one.state, true)),
          h("span", null, one.id),
        ),
      ),
      now.contexts
        ? null
        : [
            h("td", { class: "wide" }, one.state ? h("span", { class: "st" }, mark(one.state), one.state) : "–"),
            h("td", { class: "num" }, one.mean === null ? "–" : digits(one.mean)),
            h("td", { class: "iv" }, intervalDrawing(one, found.axis, found.line)),
          ],
      h(
        "td",
        { class: now.contexts ? null : "wide" },
        h("i", { class: "share", style: { width: `${(60 * Math.min(one.share, 1)).toFixed(1)}px` } }),
        percent(one.share),
      ),
      h("td", { class: now.contexts ? "num" : "num wide" }, whole(now.contexts ? one.pulls : one.seen)),
    );
    if (!open) return first;
    const range =
      one.low === null
        ? ""
        : ` Mean ${one.mean === null ? "not known" : digits(one.mean, 4)}, ` +
          `with ${now.certificate ? sureness(now.certificate.confidence) : "95%"} confidence ` +
          `from ${digits(one.low, 4)} to ${digits(one.high, 4)}.`;
    const allowed = act.may("admin"),
      gone = one.state === "retired";
    return [
      first,
      h(
        "tr",
        { class: "why" },
        h(
          "td",
          { colspan: 6 },
          h("p", null, h("b", null, "Why: "), one.why),
          h(
            "p",
            { class: "sub" },
            `${range} Shown ${plural(one.pulls, "time")}, ` +
              `in ${percent(one.share)} of the last ${plural(found.lately, "decision")}` +
              `${now.contexts ? "" : `; ${plural(one.seen, "reward")} seen`}.`,
          ),
          now.file
            ? null
            : h(
                "div",
                { class: "act" },
                h(
                  "button",
                  {
                    type: "button",
                    class: gone ? null : "danger",
                    disabled: !allowed || now.status === "archived",
                    "data-key": "retire",
                    on: { click: () => act.retire(one.id, gone) },
                  },
                  gone ? "Restore this item" : "Retire this item",
                ),
                allowed ? null : h("span", { class: "sub" }, "Your key may read only; this needs the scope admin."),
              ),
        ),
      ),
    ];
  };
  const update = (now) => {
    const found = now.items;
    if (document.activeElement !== search) search.value = act.chosen("search");
    if (document.activeElement !== state) state.value = act.chosen("state");
    if (!found) {
      show(line, "The items come when the policy is loaded.");
      show(body);
      show(heads);
      show(pager);
      return;
    }
    const means = !now.contexts,
      shown = found.lately ? `shown, last ${short(found.lately)}` : "shown";
    show(
      line,
      means
        ? [
            `Mean ${now.direction === "minimize" ? "cost" : "reward"} with its ` +
              `${now.certificate ? sureness(now.certificate.confidence) : ""} interval` +
              `${found.line === null ? "" : `; dashed: the mean of number ${now.budget}`}.`,
            h("br"),
            "Choose an item to see why it is where it is.",
          ]
        : "How often each was shown; with contexts items have no means of their own.",
    );
    show(
      heads,
      head("name", "item"),
      means
        ? [
            h("th", { scope: "col", class: "wide" }, "state"),
            head("mean", "mean", "num"),
            head("interval", "interval"),
            head("share", shown, "wide"),
            head("seen", "seen", "num wide"),
          ]
        : [head("share", shown), h("th", { scope: "col", class: "num" }, "times")],
    );
    show(
      body,
      found.rows.length
        ? found.rows.map((one) => row(one, found, now))
        : h(
            "tr",
            null,
            h(
              "td",
              { colspan: 6, class: "wrap" },
              empty(
                "No item is like that",
                act.chosen("search") || act.chosen("state")
                  ? "Nothing matches the search and the state that were chosen."
                  : "The policy has no items.",
              ),
            ),
          ),
    );
    const to = (page, name) =>
      h(
        "button",
        {
          type: "button",
          disabled: page < 0 || page >= found.pages,
          "data-key": name,
          on: { click: () => act.choose({ page: page ? String(page) : "" }) },
        },
        name,
      );
    const first = found.found ? found.page * 25 + 1 : 0;
    show(
      pager,
      h(
        "span",
        null,
        `${first} to ${Math.min(found.page * 25 + 25, found.found)} of ${whole(found.found)}` +
          `${found.found < found.total ? `, of ${plural(found.total, "item")} in all` : ""}`,
      ),
      h(
        "span",
        { class: "tools" },
        now.contexts
          ? null
          : segments(
              "Order",
              [
                ["mean", "by mean"],
                ["open", "open first"],
              ],
              act.chosen("sort") || "mean",
              (value) => act.choose({ sort: value === "mean" ? "" : value, up: "", page: "" }),
            ),
        to(found.page - 1, "Before"),
        to(found.page + 1, "Next"),
      ),
    );
  };
  update(p);
  return { element, update, focus: () => search.focus() };
}
