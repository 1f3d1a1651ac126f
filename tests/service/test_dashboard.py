"""The dashboard in a real browser: what its pages show, to whom, and whether everybody can use them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from armtriage import GuardedThompson, Matchings
from service.browsing import (
    AXE,
    COLOURS,
    DRINKS,
    Server,
    Watcher,
    make,
    opened,
    play,
    sent,
    serving,
    sideways,
    until,
    violations,
)

pytestmark = pytest.mark.xdist_group("dashboard")

HOSTILE = {
    "<script>alert(1)</script>": 0.5,
    "</script><img src=x onerror=alert(2)>": 0.4,
    "\u202eevil \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627": 0.3,
    "x" * 128: 0.6,
    "🍵🥛🍞 \U0001d565": 0.2,
    "\"quoted\" & 'single' \\ {{x}} ${y}": 0.1,
}
PAGES = {
    "policies": "/",
    "slate": "/policies/slate",
    "sets": "/policies/crews",
    "contexts": "/policies/results",
    "control": "/policies/tried",
    "keys": "/keys",
    "system": "/system",
    "missing": "/policies/nobody",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with a policy of each kind, that have been asked and told."""
    with serving(tmp_path_factory.mktemp("dashboard") / "decisions.db") as one:
        with one.client() as client:
            make(client, "slate", DRINKS, budget=2)
            play(client, "slate", DRINKS, 600)
            crews = {f"{crew} on {task}": 0.5 for crew in "AB" for task in ("roof", "well")}
            make(client, "crews", crews, decisions={"kind": "matchings", "left": 2, "right": 2})
            play(client, "crews", crews, 50)
            contexts = [[0.1 * (arm % 3), 0.2, 0.1] for arm in range(6)]
            more = {"dimension": 3, "budget": 2, "policy": {"kind": "guarded_linear"}}
            make(client, "results", DRINKS, **more)
            for _ in range(20):
                made = client.request("POST", "/v1/policies/results/decisions", {"contexts": contexts})
                told = {"decision": made["id"], "rewards": dict.fromkeys(made["show"], 0.5)}
                client.request("POST", "/v1/policies/results/rewards", told)
            control = {"share": 0.3, "incumbent": ["salt", "egg"]}
            metrics = [{"name": "unsubscribed", "limit": {"ratio": 1.2}}, {"name": "seconds", "limit": {"most": 0.5}}]
            trial = {"control": control, "metrics": metrics, "reward": {"default": 0}}
            make(client, "tried", DRINKS, budget=2, **trial)
            play(client, "tried", DRINKS, 2000, telling=1.0)
            make(client, "hostile", HOSTILE, budget=2)
            play(client, "hostile", HOSTILE, 80)
        yield one


def open_page(page: Any, url: str) -> Watcher:
    watcher = Watcher(page)
    page.goto(url)
    page.wait_for_selector("h1")
    return watcher


# The least and the largest width, and each theme; a theme changes no width.
SHORT = [(390, "light"), (1280, "dark")]
REST = [(390, "dark"), (768, "light"), (768, "dark"), (1280, "light")]


@pytest.mark.parametrize(("width", "theme"), [*SHORT, *(pytest.param(*one, marks=pytest.mark.long) for one in REST)])
def test_every_page_fits_and_says_nothing_in_the_console(chromium, server, width, theme):
    with opened(chromium, width, color_scheme=theme) as context:
        for name, path in PAGES.items():
            one = context.new_page()
            watcher = open_page(one, server.url + path)
            # Its stream has had a word, or it has none.
            one.wait_for_selector("#live[data-state=live], #live[data-state='']", state="attached")
            assert watcher.said == [], name
            assert sideways(one) == 0, name
            assert all(url.startswith((server.url, "data:")) for url in watcher.asked), name
            background = one.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (theme == "dark")
            one.close()


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_the_whole_names_of_the_pages(server, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    for path in PAGES.values():
        open_page(page, server.url + path)
        page.evaluate("document.getElementById('sign-out').hidden = false")
        links = page.locator("nav a:visible")
        assert links.all_inner_texts() == ["Policies", "Keys", "System"]
        assert links.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
        assert sideways(page) == 0


@pytest.mark.parametrize(
    ("theme", "rules"),
    [("light", AXE), ("dark", COLOURS), pytest.param("dark", AXE, marks=pytest.mark.long)],
    ids=["light", "dark", "dark-all"],
)
def test_axe_finds_nothing(chromium, server, theme, rules):
    """What is no matter of colour is tried once, and colours where all of them are."""
    slate = {"why": "/policies/slate?item=tea"}
    pages = slate | {name: PAGES[name] for name in ("policies", "keys", "system")}
    if rules is AXE:
        pages |= {name: path for name, path in PAGES.items() if name != "slate"} | {"hostile": "/policies/hostile"}
    # axe makes markup of its own in the page, which the policy of the page forbids.
    with opened(chromium, color_scheme=theme, bypass_csp=True) as context:
        for name, path in pages.items():
            one = context.new_page()
            open_page(one, server.url + path)
            assert violations(one, rules) == [], name
            one.close()
        narrow = context.new_page()
        narrow.set_viewport_size({"width": 390, "height": 900})
        open_page(narrow, server.url + "/policies/slate?item=tea")
        narrow.locator("details.data summary").first.click()
        assert violations(narrow, rules) == []


def test_the_first_answer_has_the_numbers_and_is_all_that_is_needed(server, page):
    watcher = Watcher(page)
    page.route("**/*", lambda route: route.continue_() if route.request.is_navigation_request() else route.abort())
    page.goto(server.url + "/policies/slate")
    big = page.locator("#big").inner_text()
    known = sent("GET", server.url + "/v1/policies/slate").json()
    each = known["certificate"]["regret_bound"] / known["certificate"]["rounds"]
    assert each <= float(big) <= each * 1.02
    assert page.locator("tbody tr.row").count() == len(DRINKS)
    assert "600 in all" in page.locator(".tiles").inner_text()
    assert [url for url in watcher.asked if "stream" not in url and not url.startswith("data:")] == [
        server.url + "/policies/slate"
    ]


def test_the_policy_of_the_page_lets_nothing_else_run(server, page):
    answer = sent("GET", server.url + "/")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/=]+'", policy["script-src"])
    assert re.fullmatch(r"'sha256-[\w+/=]+'", policy["style-src"])
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert answer.headers["cache-control"] == "no-store"
    folder = Path(__file__).parents[2] / "src" / "armtriage" / "service" / "dashboard" / "static"
    for file in folder.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|https?://(?!www\.w3)", text
        )
    open_page(page, server.url + "/")
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")


def test_names_are_text_whatever_they_are(server, page):
    watcher = open_page(page, server.url + "/policies/hostile")
    shown = page.locator("td.name button").evaluate_all("all => all.map(one => one.title)")
    assert sorted(shown) == sorted(HOSTILE)
    assert page.locator("main img, main script").count() == 0
    page.set_viewport_size({"width": 390, "height": 900})
    for name in HOSTILE:
        page.locator("td.name button").filter(has_text=name).first.click()
        page.wait_for_selector("tr.why")
        assert sideways(page) == 0
        page.locator("td.name button[aria-expanded=true]").click()
    assert watcher.said == []


def test_what_is_chosen_is_in_the_address(server, page):
    open_page(page, server.url + "/policies/slate")
    page.get_by_label("Search items by name").fill("e")
    page.wait_for_url("**search=e")
    until(lambda: page.locator("tbody tr.row").count() == 3)
    page.locator("th button").filter(has_text="seen").click()
    page.wait_for_url("**sort=seen**")
    page.locator("td.name button").filter(has_text="tea").click()
    assert "item=tea" in page.url
    page.get_by_role("button", name="warnings").click()
    assert "log=warns" in page.url
    page.reload()
    page.wait_for_selector("tr.why")
    assert page.locator("tbody tr.row").count() == 3
    assert page.get_by_label("Search items by name").input_value() == "e"
    assert page.locator("th[aria-sort]").inner_text().startswith("seen")
    assert page.get_by_role("button", name="warnings").get_attribute("aria-pressed") == "true"
    page.go_back()
    until(lambda: "log=warns" not in page.url)
    warnings = page.get_by_role("button", name="warnings")
    until(lambda: warnings.get_attribute("aria-pressed") == "false")


def test_each_item_says_why_it_is_where_it_is(server, page):
    open_page(page, server.url + "/policies/slate")
    rows = {row["id"]: row for row in sent("GET", server.url + "/dashboard/items/slate").json()["rows"]}
    assert {row["state"] for row in rows.values()} >= {"confirmed", "eliminated"}
    for name, row in rows.items():
        page.locator("td.name button").filter(has_text=name).click()
        assert row["why"] in page.locator("tr.why").inner_text()
        page.locator("td.name button").filter(has_text=name).click()
    assert "certainly among the best 2" in rows["tea"]["why"]
    assert "certainly not among the best 2" in rows["salt"]["why"]


def test_it_can_be_used_with_the_keyboard_alone(server, page):
    open_page(page, server.url + "/policies/slate")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel || ''"))
    for wanted in ("Policies", "Keys", "Pause", "Export", "Search items by name", "tea"):
        assert any(wanted in one for one in seen), wanted
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    button = page.locator("td.name button").filter(has_text="milk")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("tr.why")
    assert page.evaluate("document.activeElement.title") == "milk"  # the focus is where it was
    page.locator("summary").filter(has_text="Export").focus()
    page.keyboard.press("Enter")
    assert page.locator(".menu a").first.is_visible()
    page.keyboard.press("Escape")
    assert not page.locator(".menu a").first.is_visible()
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    assert sent("GET", server.url + "/v1/policies/slate").json()["status"] == "running"


def test_charts_have_their_numbers_in_tables(server, page):
    open_page(page, server.url + "/policies/slate")
    drawn = page.locator("figure svg[role=img]")
    assert drawn.count() >= 2
    assert "Certified loss per decision over decisions made" in drawn.first.get_attribute("aria-label")
    page.locator("section:has(#loss) details.data summary").click()
    cells = page.locator("section:has(#loss) details.data td").all_inner_texts()
    assert "600" in cells


def test_it_prints(server, page):
    open_page(page, server.url + "/policies/slate")
    page.emulate_media(media="print")
    assert not page.get_by_role("button", name="Pause").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('header')).position") == "static"
    assert len(page.pdf(format="A4")) > 10_000


def test_sets_and_contexts_have_their_parts(server, page):
    open_page(page, server.url + "/policies/crews")
    text = page.locator("section:has(#sets)").inner_text()
    assert "Matchings" in text
    assert "Incumbent" in text
    page.goto(server.url + "/policies/results")
    assert page.locator("section:has(#weights) .weights > div").count() == 3
    assert "linear in the contexts" in page.locator(".verdict").inner_text()
    assert page.locator("#triage").count() == 0


def test_a_control_group_has_its_card(server, page):
    watcher = open_page(page, server.url + "/policies/tried")
    card = page.locator("section[aria-labelledby=lift]")
    text = card.inner_text()
    assert "Against the control" in text
    assert "30% of decisions, by decision; in the band with 95% confidence at all times" in text
    assert "Over 2,000 decisions" in text
    assert "unsubscribed" in text
    assert "No alarm" in text
    drawn = card.locator("svg[aria-label^='What a decision of the policy earns more']")
    assert "between +" in drawn.get_attribute("aria-label")
    card.get_by_text("Numbers").click()
    assert card.locator("table tbody tr").count() > 5
    assert page.locator("section[aria-labelledby=health]").get_by_text("Control group").count() == 1
    assert watcher.said == []
    open_page(page, server.url + "/policies/slate")
    assert page.locator("section[aria-labelledby=lift]").count() == 0


def test_a_policy_that_observes_has_its_card_and_resumes_observing(tmp_path, page):
    with serving(tmp_path / "decisions.db") as one, one.client() as client:
        make(client, "watched", DRINKS, budget=2, status="observing", reward={"default": 0})
        for number in range(40):
            shown = list(DRINKS)[number % 2 : number % 2 + 2]
            made = client.decide("watched", id=f"v{number}", shown=shown)
            client.reward("watched", made, hits=shown[:1])
        until(lambda: client.policy("watched")["observing"]["decisions"] == 40)
        watcher = open_page(page, one.url + "/policies/watched")
        text = page.locator("section[aria-labelledby=observing]").inner_text()
        assert "Another system decides" in text
        assert "In 40 observed decisions" in text
        assert "A decision earned 1.00." in text
        assert "it would show" in page.locator("main").inner_text()
        page.get_by_role("button", name="Pause").click()
        page.locator("dialog").get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Pause").wait_for()
        assert client.request("PATCH", "/v1/policies/watched", {"status": "observing"})["status"] == "observing"
        client.request("PATCH", "/v1/policies/watched", {"status": "running"})
        page.get_by_text("It took over by hand").wait_for()
        assert watcher.said == []


def test_exports_are_what_they_say(server, page):
    open_page(page, server.url + "/policies/slate")
    page.locator("summary").filter(has_text="Export").click()
    for name, start in (("Items", b"item,state,mean"), ("Decisions", b"PAR1"), ("Log", b'{"seq":1,')):
        with page.expect_download() as found:
            page.locator(".menu a").filter(has_text=name).first.click()
        assert Path(found.value.path()).read_bytes().startswith(start)
        page.locator("summary").filter(has_text="Export").click()


def test_a_saved_policy_has_the_same_page(chromium, tmp_path):
    file = tmp_path / "crews.npz"
    policy = GuardedThompson(4, decisions=Matchings(2, 2), names=["<b>a</b>", "b", "c", "d"], seed=7)
    for visit in range(30):
        policy.tell_revealed(policy.ask(), [visit % 10 == 0, 0])
    policy.save(file)
    command = [sys.executable, "-m", "armtriage", "dashboard", str(file), "--no-open"]
    shown, stack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), ExitStack()
    try:
        assert shown.stdout is not None
        url = next(word for word in shown.stdout.readline().split() if word.startswith("http://")).rstrip(";")
        page = stack.enter_context(opened(chromium, bypass_csp=True)).new_page()
        watcher = open_page(page, url)
        assert "the 30 decisions" in page.locator(".verdict").inner_text()
        assert "says nothing useful yet" in page.locator("#needed").inner_text()
        assert "nothing useful is certified yet" in page.locator(".verdict b").all_inner_texts()
        assert page.locator("td.name").count() == 4
        assert page.get_by_role("button", name="Pause").count() == 0
        assert "history, traffic" in page.locator("section:has(#file)").inner_text()
        assert violations(page) == []
        for _ in range(12):
            policy.tell_revealed(policy.ask(), [1, 0])
        policy.save(file)
        page.get_by_text("the 42 decisions").wait_for()
        assert watcher.said == []
        assert sent("GET", url, headers={"host": "evil.example"}).status_code == 403
    finally:
        stack.close()
        shown.terminate()
        shown.wait(timeout=120)
        shown.stdout.close()


def test_a_file_that_is_no_policy_is_refused(tmp_path):
    file = tmp_path / "no.npz"
    file.write_text(json.dumps({}))
    command = [sys.executable, "-m", "armtriage", "dashboard", str(file), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "no.npz" in done.stderr
