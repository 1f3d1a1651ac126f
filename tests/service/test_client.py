"""The client: what is lost on the way is sent again, and counts once."""

import asyncio
import threading

import pytest

from armtriage.service import AsyncClient, Client, ServiceError, Unavailable
from service.journal import make_slate, serving


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving(str(tmp_path_factory.mktemp("client") / "decisions.db")) as server:

        async def begin():
            async with server.client() as call:
                await make_slate(call)
                await server.ready(call)

        asyncio.run(begin())
        yield server.url


def test_decide_and_reward(url):
    with Client(url, deadline=120.0) as client:
        made = client.decide("slate", exclude=["item-0"], tags={"page": "home"})
        assert made.logged
        assert len(made.arms) == 3
        assert client.reward("slate", made, {made.arms[0]: 1}) == {made.arms[0]: "applied"}
        assert client.reward("slate", made.id, {made.arms[0]: 1}) == {made.arms[0]: "duplicate"}
        with pytest.raises(ServiceError) as caught:
            client.reward("slate", made, {made.arms[0]: 0})
        assert (caught.value.code, caught.value.fates) == ("conflict", {made.arms[0]: "conflict"})
        with pytest.raises(ServiceError, match="not_found"):
            client.decide("nobody")
        assert client.policy("slate")["name"] == "slate"


class Lossy:
    """A server in front of the service that loses answers: every second one, after the service has given it."""

    def __init__(self, url):
        self.host, self.port = url.removeprefix("http://").split(":")
        self.answered = 0

    async def pipe(self, reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection(self.host, int(self.port))
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                inner_writer.write(head + await reader.readexactly(length))
                answer = await inner_reader.readuntil(b"\r\n\r\n")
                length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                body = await inner_reader.readexactly(length)
                self.answered += 1
                if self.answered % 2:
                    writer.transport.abort()
                    return
                writer.write(answer + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            inner_writer.close()
            writer.close()


def test_lost_answers_are_asked_for_again_and_count_once(url):
    lossy, started, over = Lossy(url), threading.Event(), threading.Event()
    found = {}

    async def serve():
        server = await asyncio.start_server(lossy.pipe, "127.0.0.1", 0)
        found["port"] = server.sockets[0].getsockname()[1]
        started.set()
        async with server:
            while not over.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(120)
        with Client(url, deadline=120.0) as direct:
            before = direct.policy("slate")
            with Client(f"http://127.0.0.1:{found['port']}", deadline=120.0) as client:
                for _ in range(10):
                    made = client.decide("slate")
                    assert set(client.reward("slate", made, hits=made.arms[:1]).values()) <= {"applied", "duplicate"}
            after = direct.policy("slate")
            counts = {name: after["counts"].get(name, 0) - before["counts"].get(name, 0) for name in after["counts"]}
            assert after["counts"]["decisions"] - before["counts"].get("decisions", 0) == 10
            assert counts["repeated"] >= 5
            assert counts["applied"] == 30
    finally:
        over.set()
        thread.join()


def test_without_a_service_there_is_a_fallback_or_an_error():
    with Client("http://127.0.0.1:1", deadline=0.3) as client:
        made = client.decide("slate", fallback=lambda: ["a", "b"])
        assert (made.arms, made.logged) == (["a", "b"], False)
        assert client.reward("slate", made, {"a": 1}) == {}
        with pytest.raises(Unavailable, match=r"did not do it in 0\.3 s"):
            client.decide("slate")


def test_many_threads_and_tasks(url):
    with Client(url, deadline=120.0) as client:
        made = []
        threads = [threading.Thread(target=lambda: made.append(client.decide("slate"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({one.id for one in made}) == 8

    async def work():
        async with AsyncClient(url) as client:
            made = await asyncio.gather(*(client.decide("slate") for _ in range(20)))
            fates = await asyncio.gather(*(client.reward("slate", one, hits=[]) for one in made))
            assert {fate for one in fates for fate in one.values()} == {"applied"}
            assert (await client.policy("slate"))["kind"] == "guarded_thompson"

    asyncio.run(work())


@pytest.mark.parametrize(("url", "deadline"), [("localhost:8000", 1), ("ftp://x", 1), ("http://x", 0)])
def test_what_a_client_does_not_take(url, deadline):
    with pytest.raises(ValueError, match=r"url must be|deadline must be"):
        Client(url, deadline=deadline)
