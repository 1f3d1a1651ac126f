"""The dashboard while things happen: an audience plays, the server dies, keys and people come, policies change."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from armtriage.service import Client
from service.browsing import DRINKS, Server, Watcher, make, play, sent, serving, sideways, until

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "decisions.db") as one:
        yield one


def live(page: Any) -> bool:
    return page.locator("#live").get_attribute("data-state") == "live"


def listen(url: str, many: int) -> int:
    """Listen until a stream has sent so many events; return how many were facts, none too long and none too early."""
    began, said, facts, seen = time.monotonic(), b"", 0, 0
    with httpx.stream("GET", url, timeout=120.0) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        for piece in answer.iter_raw():
            *whole, said = (said + piece).split(b"\n\n")
            for event in whole[not seen and whole[0].startswith(b"retry") :]:
                # One a second: later ones may have been held up, but none comes before its time.
                assert time.monotonic() - began >= 0.99 * seen
                assert len(event) + 2 <= 2048
                seen += 1
                facts += event.startswith(b"event: facts")
            if seen >= many:
                return facts
    raise EOFError("the stream has ended")


def test_numbers_change_while_an_audience_plays_and_survive_the_server(server, page):
    watcher = Watcher(page)
    with server.client() as client:
        page.goto(server.url)
        assert "No policy yet" in page.locator("main").inner_text()
        make(client, "slate", DRINKS, budget=2)
        page.get_by_role("link", name="slate").wait_for()  # without anybody's doing
        page.get_by_role("link", name="slate").click()
        page.wait_for_url("**/policies/slate")
        page.get_by_text("no decision has been made yet").wait_for()
        assert "The first point comes with the first decision" in page.locator("main").inner_text()

        over, made = threading.Event(), 0

        def audience() -> None:
            nonlocal made
            with server.client() as visitors:
                while not over.is_set():
                    play(visitors, "slate", DRINKS, 10, seed=made)
                    made += 10
                    time.sleep(0.1)

        crowd = threading.Thread(target=audience)
        crowd.start()
        try:
            tile = page.locator(".tile").first
            until(lambda: tile.locator(".v").inner_text() != "0 /s")
            first = tile.inner_text()
            until(lambda: tile.inner_text() != first)
            until(lambda: page.locator("#big").inner_text() not in ("\u2013", "2"))
            until(lambda: page.locator("section:has(#loss) figure svg").count() == 1)
            assert page.locator(".log li").count() > 5
            assert listen(server.url + "/dashboard/stream?policy=slate", 4) >= 1
        finally:
            over.set()
            crowd.join()
        assert [text for text in watcher.said if "ERR_" not in text] == []

    server.kill()
    until(lambda: page.locator("#live").get_attribute("data-state") == "gone")
    assert "has not answered since" in page.locator("#banner").inner_text()
    assert page.locator("#live").inner_text() == "not live"
    server.start()
    until(lambda: live(page) and not page.locator("#banner").is_visible())
    until(lambda: f"{made:,} in all" in page.locator(".tiles").inner_text())  # nothing that was shown is lost
    assert page.locator("section:has(#loss) figure svg").count() == 1
    page.reload()
    until(lambda: page.locator("section:has(#loss) figure svg").count() == 1)  # the log tells it again
    with server.client() as client:
        play(client, "slate", DRINKS, 10)
        until(lambda: f"{made + 10:,} in all" in page.locator(".tiles").inner_text())


def test_pause_resume_and_retire(server, page):
    with server.client() as client:
        make(client, "slate", DRINKS, budget=2)
        play(client, "slate", DRINKS, 50)
        page.goto(server.url + "/policies/slate?item=egg")
        page.get_by_role("button", name="Pause").click()
        page.locator("dialog").get_by_role("button", name="Cancel").click()
        assert client.policy("slate")["status"] == "running"
        page.get_by_role("button", name="Pause").click()
        page.locator("dialog").get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").wait_for()
        assert sent("POST", server.url + "/v1/policies/slate/decisions", json={}).json()["error"] == "paused"
        assert "paused" in page.locator(".chips").inner_text()
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Pause").wait_for()
        assert sent("POST", server.url + "/v1/policies/slate/decisions", json={}).status_code == 201

        page.get_by_role("button", name="Retire this item").click()
        page.locator("dialog").get_by_role("button", name="Retire").click()
        page.get_by_role("button", name="Restore this item").wait_for()
        assert "Retired: it is shown no more" in page.locator("tr.why").inner_text()
        arms = client.request("GET", "/v1/policies/slate/arms")["arms"]
        assert [arm["id"] for arm in arms if arm["retired"]] == ["egg"]
        page.get_by_role("button", name="Restore this item").click()
        page.locator("dialog").get_by_role("button", name="Restore").click()
        page.get_by_role("button", name="Retire this item").wait_for()
        page.get_by_role("button", name="changes").click()
        until(lambda: "restored egg" in page.locator(".log").inner_text())
        assert "the policy is paused" in page.locator(".log").inner_text()


def test_keys_decide_who_sees_and_who_changes(server, page):
    with server.client() as client:
        make(client, "slate", DRINKS, budget=2)
    page.goto(server.url + "/keys")
    assert "There is no key" in page.locator("main").inner_text()
    admin, marked = server.key("read,admin"), {"x-armtriage": "dashboard"}
    held = {"armtriage": admin}
    made = sent("POST", server.url + "/dashboard/keys", json={"scopes": ["read"]}, cookies=held, headers=marked)
    reader = made.json()["key"]
    assert sent("GET", server.url + "/v1/policies/slate").status_code == 401
    assert '"page":"sign-in"' in sent("GET", server.url + "/policies/slate").text
    for path in ("/dashboard/items/slate", "/dashboard/stream?policy=slate", "/dashboard/items.csv/slate"):
        assert sent("GET", server.url + path).status_code == 401

    page.goto(server.url + "/policies/slate")
    page.get_by_label("Key").fill("at_00000000_" + "x" * 43)
    page.get_by_role("button", name="Sign in").click()
    until(lambda: "No such key" in page.locator(".problem").inner_text())
    page.get_by_label("Key").fill(reader)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="slate").wait_for()
    assert page.get_by_role("button", name="Pause").is_disabled()
    until(lambda: live(page))
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert reader not in page.content()
    page.get_by_role("link", name="Keys").click()
    page.get_by_text("This page needs the scope admin").wait_for()

    # A cookie alone changes nothing: another page could send it.
    status = server.url + "/v1/policies/slate"
    assert sent("PATCH", status, json={"status": "paused"}, cookies=held).status_code == 401
    assert (
        sent("PATCH", status, json={"status": "paused"}, cookies={"armtriage": reader}, headers=marked).status_code
        == 403
    )
    elsewhere = marked | {"origin": "http://evil.example"}
    assert sent("POST", server.url + "/dashboard/keys", json={}, cookies=held, headers=elsewhere).status_code == 403
    assert sent("POST", server.url + "/dashboard/keys", json={}, cookies=held).status_code == 403

    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in", level=1).wait_for()
    page.get_by_label("Key").fill(admin)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Keys", exact=True).wait_for()
    assert page.locator("tbody tr").count() >= 2
    page.get_by_label("What it is for").fill("web")
    page.get_by_label("decide").check()
    page.get_by_role("button", name="Make a key").click()
    page.locator("dialog").wait_for()
    made = next(word for word in page.locator("dialog").inner_text().split() if word.startswith("at_"))
    page.locator("dialog").get_by_role("button", name="I have it").click()
    bearer = {"authorization": f"Bearer {made}"}
    assert sent("POST", server.url + "/v1/policies/slate/decisions", json={}, headers=bearer).status_code == 201
    page.get_by_role("button", name=f"Revoke key {made[3:11]}").click()
    page.locator("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("revoked").first.wait_for()
    assert sent("POST", server.url + "/v1/policies/slate/decisions", json={}, headers=bearer).status_code == 401


def test_ten_thousand_items_make_no_larger_page(server, page):
    items = {f"item-{number:05d}": 0.1 + 0.8 * (number % 97) / 97 for number in range(10_000)}
    with server.client() as client:
        make(client, "large", items, budget=10)
        play(client, "large", items, 100)
        answer = sent("GET", server.url + "/policies/large")
        facts = answer.text.split('id="facts">', 1)[1].split("</script>")[0]
        assert len(facts.encode()) < 60_000
        page.goto(server.url + "/policies/large")
        page.get_by_label("Search items by name").fill("item-0777")
        until(lambda: page.locator("tbody tr.row").count() == 10)
        page.get_by_label("Search items by name").fill("")
        until(lambda: "1 to 25 of 10,000" in page.locator(".pager").inner_text())
        page.locator(".pager").get_by_role("button", name="Next").click()
        until(lambda: "26 to 50 of 10,000" in page.locator(".pager").inner_text())
        assert sideways(page) == 0
        listen(server.url + "/dashboard/stream?policy=large", 2)


@pytest.mark.long
def test_a_million_decisions_make_no_larger_page(server, page):
    appeal = {f"item-{number:02d}": 0.1 + 0.04 * number for number in range(20)}
    with Client(server.url, deadline=60.0) as client:
        make(client, "old", appeal, budget=2)
        chance = random.Random(7)
        for _ in range(1000):
            made = client.request("POST", "/v1/policies/old/decisions/batch", {"requests": [{}] * 1000})
            told = [
                {"decision": one["id"], "hits": [item for item in one["show"] if chance.random() < appeal[item]]}
                for one in made["decisions"][:100]
            ]
            client.request("POST", "/v1/policies/old/rewards/batch", {"requests": told})
        began = time.monotonic()
        answer = sent("GET", server.url + "/policies/old")
        assert time.monotonic() - began < 2.0
        assert len(answer.content) < 180_000
        page.goto(server.url + "/policies/old")
        page.get_by_text("the 1,000,000 decisions").wait_for()
        points = answer.text.split('"course":', 1)[1].split(',"log"')[0].count("[") - 1
        assert 50 < points <= 301
    server.kill()
    server.start()
    page.goto(server.url + "/policies/old")
    page.get_by_text("the 1,000,000 decisions").wait_for(timeout=120_000)
    assert page.locator("section:has(#loss) figure svg").count() == 1
