// What is chosen is in the address; what changes comes over a stream; what is asked for goes through the service's own
// interface.
let facts = JSON.parse($("facts").textContent),
  page = {},
  stream = null,
  heard = 0,
  state = "",
  asked = 0,
  itemsAsked = 0,
  retry = 0,
  lastFacts = Date.now();
const SILENCE = 2500; // milliseconds without a word after which the page is not live

function address() {
  return new URLSearchParams(location.search);
}
const say = (text) => {
  $("said").textContent = text;
};

const act = {
  chosen: (name) => address().get(name) ?? "",
  may: (scope) => facts.who.scopes.includes(scope),
  choose(changes, whole) {
    const query = address();
    for (const [name, value] of Object.entries(changes))
      if (value) query.set(name, value);
      else query.delete(name);
    const text = query.toString();
    history.pushState(null, "", `${location.pathname}${text ? `?${text}` : ""}`);
    if (whole) refresh();
    else if (Object.keys(changes).every((name) => name === "log" || name === "item" || name === "range"))
      page.chosen?.();
    else loadItems();
  },
  refresh: () => {
    if (Date.now() - asked > 900) refresh();
    else
      setTimeout(() => {
        if (Date.now() - asked > 900) refresh();
      }, 1000);
  },
  reload(now) {
    facts = now;
    render();
  },
  async pause(name, paused, resumed) {
    if (
      !paused &&
      !(await ask(
        "Pause this policy?",
        `${name} will make no decisions: requests for one get 409 until it is resumed. Rewards go on.`,
        "Pause",
      ))
    )
      return;
    await write(
      "PATCH",
      `/v1/policies/${encodeURIComponent(name)}`,
      { status: paused ? resumed : "paused" },
      paused ? "Resumed" : "Paused",
    );
  },
  async retire(item, gone) {
    const text = gone
      ? `${item} may be shown again, with all that is known of it.`
      : `${item} will not be shown any more. It can be restored, with all that is known of it.`;
    if (!(await ask(gone ? "Restore this item?" : "Retire this item?", text, gone ? "Restore" : "Retire"))) return;
    await write(
      "PATCH",
      `/v1/policies/${encodeURIComponent(facts.name)}/arms`,
      gone ? { restore: [item] } : { retire: [item] },
      gone ? "Restored" : "Retired",
    );
    await loadItems();
  },
  async makeKey(scopes, label, rate, problem) {
    const made = await send("POST", "/dashboard/keys", { scopes, label, rate });
    if (!made.ok) {
      problem.textContent = made.why;
      return;
    }
    await ask("The new key", `${made.body.key} — it is not shown again, so copy it now.`, "I have it", true);
    if (facts.who.open && scopes.includes("read")) await send("POST", "/dashboard/session", { key: made.body.key });
    await refresh();
  },
  async revoke(id) {
    if (
      !(await ask(
        "Revoke this key?",
        `Requests with key ${id} are refused from now on. This cannot be taken back.`,
        "Revoke",
      ))
    )
      return;
    const done = await send("DELETE", `/dashboard/keys/${id}`);
    say(done.ok ? `Key ${id} is revoked` : done.why);
    await refresh();
  },
  async signIn(key, problem) {
    const done = await send("POST", "/dashboard/session", { key });
    if (!done.ok) {
      problem.textContent =
        done.status === 429
          ? "Too many wrong keys from this address; wait a minute."
          : done.status === 401
            ? "No such key, or it was revoked."
            : done.why;
      return;
    }
    await refresh();
  },
};

async function send(method, path, body) {
  try {
    const answer = await fetch(path, {
      method,
      headers: { "x-armtriage": "dashboard", "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const found = await answer.json().catch(() => ({}));
    return {
      ok: answer.ok,
      status: answer.status,
      body: found,
      why: found.detail ?? `The server answered ${answer.status}.`,
    };
  } catch {
    return {
      ok: false,
      status: 0,
      body: {},
      why: "The server does not answer; nothing was changed, as far as is known.",
    };
  }
}
async function write(method, path, body, done) {
  const found = await send(method, path, body);
  if (found.ok) say(done);
  else await ask("That did not work", found.why, "Close", true);
  await refresh();
}
function ask(title, text, yes, only) {
  const box = $("ask");
  return new Promise((answer) => {
    const close = (value) => {
      box.close();
      answer(value);
    };
    show(
      box,
      h("h2", { id: "ask-title" }, title),
      h("p", { class: "isolate" }, text),
      h(
        "div",
        { class: "act" },
        only ? null : h("button", { type: "button", on: { click: () => close(false) } }, "Cancel"),
        h("button", { type: "button", class: "main", on: { click: () => close(true) } }, yes),
      ),
    );
    box.oncancel = () => answer(false);
    box.showModal();
    box.querySelector("button.main").focus();
  });
}

async function get(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}
async function refresh() {
  asked = itemsAsked = Date.now();
  const path = location.pathname,
    query = address();
  query.set("path", path);
  try {
    const now = await get(`/dashboard/page?${query}`);
    if (location.pathname !== path) return;
    lastFacts = Date.now();
    const same =
      now.page === facts.page &&
      now.name === facts.name &&
      JSON.stringify(now.who) === JSON.stringify(facts.who) &&
      !now.failed &&
      !facts.failed;
    facts = now;
    if (same && page.fresh) page.fresh(now);
    else render();
  } catch {
    /* The stream says that the server is gone. */
  }
}
async function loadItems() {
  itemsAsked = Date.now();
  if (facts.page !== "policy" || !facts.known) {
    await refresh();
    return;
  }
  try {
    page.items?.(await get(`/dashboard/items/${encodeURIComponent(facts.name)}?${address()}`));
  } catch {
    /* as above */
  }
}

function render() {
  const here = facts.page === "policy" ? facts.name : null,
    may = facts.page !== "sign-in";
  const links = facts.file
    ? []
    : [
        ["/", "Policies", facts.page === "policies"],
        here ? [location.pathname, here, true] : null,
        ["/keys", "Keys", facts.page === "keys"],
        ["/system", "System", facts.page === "system"],
      ];
  show(
    $("nav"),
    may
      ? links
          .filter(Boolean)
          .map(([to, name, now]) =>
            h("a", { href: to, class: name === here ? "here" : null, "aria-current": now ? "page" : null }, name),
          )
      : null,
  );
  const titles = { policies: "Policies", keys: "Keys", system: "System", "sign-in": "Sign in" };
  document.title = `${titles[facts.page] ?? facts.name} · armtriage`;
  $("sign-out").hidden = !facts.who.signed;
  if (facts.failed) {
    show(
      $("main"),
      h(
        "section",
        { class: "card" },
        empty(
          "The store does not answer",
          facts.failed === "disk_full"
            ? "Its disk is full. Decisions are refused until there is room."
            : "Policies are loaded again when it does; this page tries every second.",
        ),
      ),
    );
    page = { every: 1, fresh: null };
  } else
    page = { policies: policiesPage, policy: policyPage, keys: keysPage, system: systemPage, "sign-in": signInPage }[
      facts.page
    ](facts, act);
  listen();
}

// The stream has a word every second; where it has none the server is gone, and the page says so and tries again.
function listen() {
  stream?.close();
  stream = null;
  clearTimeout(retry);
  if (page.stream === undefined) {
    state = "";
    tell();
    return;
  }
  heard = Date.now();
  const opened = new EventSource(`/dashboard/stream${page.stream ? `?policy=${encodeURIComponent(page.stream)}` : ""}`);
  stream = opened;
  const word = () => {
    heard = Date.now();
    if (state === "gone") refresh();
    state = "live";
    tell();
  };
  opened.addEventListener("tick", () => {
    word();
    lastFacts = Date.now();
  });
  opened.addEventListener("changed", () => {
    word();
    refresh();
  });
  opened.addEventListener("facts", (event) => {
    word();
    lastFacts = Date.now();
    page.live?.(JSON.parse(event.data));
  });
  opened.addEventListener("error", () => {
    if (opened !== stream) return;
    if (opened.readyState === EventSource.CLOSED) {
      retry = setTimeout(reopen, 1000);
    }
  });
  if (!state) {
    state = "wait";
    tell();
  }
}
async function reopen() {
  const was = heard;
  try {
    await get("/healthz");
  } catch {
    retry = setTimeout(reopen, 1000);
    return;
  }
  await refresh();
  if (page.stream !== undefined) {
    listen();
    if (state === "gone") heard = was;
  }
}
function tell() {
  const box = $("live"),
    gone = state === "gone";
  const words = facts.file
    ? [`saved ${clock(facts.file.saved)}`, ""]
    : state === "live"
      ? ["live", ""]
      : gone
        ? ["not live", ""]
        : state === "wait"
          ? ["connecting", ""]
          : ["", ""];
  if (box.dataset.state !== state || box.textContent !== words.join("")) {
    box.dataset.state = state;
    show(box, words[0] ? [h("i"), h("span", null, words[0])] : null);
  }
  const banner = $("banner");
  const text = gone
    ? `Not live: the server has not answered since ${clock(lastFacts)}. ` +
      `The numbers are from then; this page tries again every second.`
    : "";
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !gone;
}
setInterval(() => {
  if (page.stream !== undefined && state !== "gone" && Date.now() - heard > SILENCE) {
    state = "gone";
    tell();
  }
  if (document.hidden) return;
  if (page.every && Date.now() - asked > page.every * 1000 && (state !== "gone" || facts.failed)) refresh();
  else if (page.itemsEvery && state === "live" && Date.now() - itemsAsked > page.itemsEvery * 1000 && page.changed())
    loadItems();
}, 500);

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  for (const menu of document.querySelectorAll("details.menu[open]"))
    if (!menu.contains(event.target) || link) menu.open = false;
  if (
    !link ||
    event.ctrlKey ||
    event.metaKey ||
    event.shiftKey ||
    event.button ||
    link.hasAttribute("download") ||
    facts.file
  )
    return;
  const to = link.getAttribute("href");
  if (to === "/" || to === "/keys" || to === "/system" || to.startsWith("/policies/")) {
    event.preventDefault();
    if (to !== location.pathname + location.search) {
      history.pushState(null, "", to);
    }
    scrollTo(0, 0);
    refresh().then(() => $("main").focus({ preventScroll: true }));
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape")
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    const box = document.querySelector('input[type="search"]');
    if (box) {
      event.preventDefault();
      box.focus();
    }
  }
});
addEventListener("popstate", () => refresh());
addEventListener("resize", () => page.draw?.());
addEventListener("beforeprint", () => page.draw?.());
$("sign-out").addEventListener("click", async () => {
  await send("DELETE", "/dashboard/session");
  await refresh();
});
const root = document.documentElement;
try {
  if (localStorage.getItem("theme")) root.dataset.theme = localStorage.getItem("theme");
} catch {
  /* without storage the system's choice stands */
}
$("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    /* as above */
  }
});
asked = itemsAsked = Date.now();
render();
