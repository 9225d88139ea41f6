"""The page in Chromium: every screen light, dark, wide and narrow; by keyboard; without script."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.test_oidc import LocalIssuer
from tests.server.test_running import configured, running

from unacorda.server.config import read_config
from unacorda.server.store import opened
from unacorda.server.tokens import make_token

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
ANALYST = ("/", "/ask/visits", "/history")
CURATOR = (
    *("/curator", "/curator/tokens", "/curator/ledger/visits"),
    *("/curator/acts", "/curator/operations"),
)
_BAD = ("error", "warning")
TABS = 120
"""More than any way by keyboard is long."""


class Site:
    """A server in a process of its own, tokens for it, a browser, and an organization's issuer."""

    def __init__(self, url: str, tokens: dict[str, str], browser: Any, issuer: LocalIssuer) -> None:
        self.url, self.tokens, self.browser, self.issuer = url, tokens, browser, issuer

    @contextmanager
    def page(self, **options: Any) -> Iterator[Any]:
        """A page of a new context; what it must not do is collected, and none of it is allowed."""
        context = self.browser.new_context(base_url=self.url, **options)
        context.set_default_timeout(90_000)  # milliseconds: the machine may be busy
        page = context.new_page()
        faults: list[str] = []
        page.on("console", lambda one: faults.append(one.text) if one.type in _BAD else None)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda one: faults.append(f"dialog: {one.message}"))
        page.on("request", lambda one: faults.append(one.url) if self.is_away(one.url) else None)
        page.on("response", lambda one: faults.append(one.url) if one.status >= 500 else None)
        try:
            yield page
        finally:
            context.close()
        assert not faults

    def is_away(self, url: str) -> bool:
        return not url.startswith((f"{self.url}/", f"{self.issuer.url}/authorize?"))

    def sign_in(self, page: Any, name: str) -> None:
        page.goto("/sign-in")
        page.fill("#token", self.tokens[name])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    path = configured(tmp_path_factory.mktemp("served"))
    issuer = LocalIssuer()
    block = f'[oidc]\nissuer = "{issuer.url}"\naudience = "unacorda"\nclient_id = "page"\n'
    path.write_text(f"{path.read_text()}{block}")
    config = read_config(path)
    arguments = ["--no-sandbox"] if os.name == "posix" and os.getuid() == 0 else []
    with running(path), playwright.sync_playwright() as started:
        with opened(config.store) as store:
            tokens = {
                "ana": make_token(store, "ana", role="analyst"),
                "office": make_token(store, "office", role="curator"),
            }
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield Site(config.public_url, tokens, browser, issuer)
        finally:
            browser.close()
            issuer.close()


def violations(page: Any) -> list[str]:
    """What axe-core finds against WCAG 2.2 AA and its best practices."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="there is no axe")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def check_screen(page: Any, width: int) -> None:
    """No sideways scrolling of the page, one h1, and nothing that axe-core objects to."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url
    assert page.locator("h1").count() == 1
    assert violations(page) == [], page.url


def ask_in_words(page: Any) -> None:
    """Fill the builder with a question, and explain it."""
    page.goto("/ask/visits")
    page.click("text=Add an answer")
    page.select_option('[name="answer1.function"]', "mean")
    page.select_option('[name="answer1.column"]', "age")
    page.check('input[name="group"][value="county"]')
    page.fill("#rows", "1000")
    page.fill("#within", "150")
    page.click("text=Find the budget")


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen(site: Site, scheme: Any, width: int, tmp_path: Path) -> None:
    size = {"width": width, "height": 850}
    with site.page(color_scheme=scheme, viewport=size, reduced_motion="reduce") as page:
        page.goto("/sign-in")
        check_screen(page, width)
        site.sign_in(page, "ana")
        for path in ANALYST:
            page.goto(path)
            check_screen(page, width)
        ask_in_words(page)
        assert page.locator("svg.chart").count() == 2
        check_screen(page, width)
        page.click("text=Try on made-up rows")
        page.wait_for_selector(".made-up")
        check_screen(page, width)
        page.click("text=Ask and spend")
        check_screen(page, width)
        if page.locator("[name=fresh]").count():
            page.check("[name=fresh]")
        page.click("form[data-once] button.main")
        page.wait_for_selector(".answer-table")
        check_screen(page, width)
        page.goto("/history")
        check_screen(page, width)
        page.click("text=Sign out")
        site.sign_in(page, "office")
        for path in CURATOR:
            page.goto(path)
            for one in page.locator("summary").all():
                one.click()
            check_screen(page, width)
        page.screenshot(path=tmp_path / "last.png", full_page=True)


def tab_to(page: Any, selector: str) -> None:
    """Press Tab until the focus is where it is wanted, and see that it can be seen."""
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if page.evaluate("([one]) => document.activeElement.matches(one)", [selector]):
            style = "getComputedStyle(document.activeElement).outlineStyle"
            assert page.evaluate(style) != "none", selector
            return
    raise AssertionError(selector)


def test_the_keyboard_alone_goes_from_sign_in_to_an_answer(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        page.wait_for_selector("#token:focus")
        page.keyboard.type(site.tokens["ana"])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav")
        tab_to(page, "a.skip")
        tab_to(page, "h2 a")
        page.keyboard.press("Enter")
        page.wait_for_selector("#question")
        tab_to(page, 'button[value="mode:sql"]')
        page.keyboard.press("Enter")
        page.wait_for_selector("#sql:visible")
        tab_to(page, "#sql")
        page.keyboard.type("SELECT COUNT(*) AS n FROM vis")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.input_value("#sql") == "SELECT COUNT(*) AS n FROM visits"
        tab_to(page, "#within")
        page.keyboard.type("150")
        tab_to(page, 'button[value="suggest"]')
        page.keyboard.press("Enter")
        page.wait_for_selector("#result svg")
        tab_to(page, "input[name=pick]")
        page.keyboard.press("ArrowUp")  # the next cheaper budget
        picked = page.input_value("input[name=pick]:checked")
        tab_to(page, "button[value=pick]")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "([one]) => document.getElementsByName('budget.rho')[0].value == one", arg=[picked]
        )
        tab_to(page, "#result button.main")
        page.keyboard.press("Enter")
        page.wait_for_selector("form[data-once]")
        tab_to(page, "#purpose")
        page.keyboard.type("by keyboard")
        page.keyboard.press("Enter")
        page.wait_for_selector(".answer-table")
        assert re.search(r"\d ± \d", page.inner_text(".answer-table"))


def test_names_are_completed_and_escape_leaves_them(site: Site) -> None:
    with site.page() as page:
        site.sign_in(page, "ana")
        page.goto("/ask/visits")
        page.click('button[value="mode:sql"]')
        page.click("#sql")
        page.keyboard.type("SELECT ag")
        options = page.locator("#completions [role=option]")
        assert options.all_inner_texts() == ["age"]
        assert page.get_attribute("#sql", "aria-expanded") == "true"
        page.keyboard.press("Escape")
        assert page.get_attribute("#sql", "aria-expanded") == "false"
        page.keyboard.press("Enter")
        assert page.input_value("#sql") == "SELECT ag\n"
        page.keyboard.type("a")
        page.click(".schema code[data-name=county]")
        assert "county" in page.input_value("#sql")


def test_it_works_without_script(site: Site) -> None:
    with site.page(java_script_enabled=False) as page:
        site.sign_in(page, "ana")
        ask_in_words(page)
        page.click("text=Ask and spend")
        if page.locator("[name=fresh]").count():
            page.check("[name=fresh]")
        page.click("form[data-once] button.main")
        page.wait_for_selector(".answer-table")
        assert "±" in page.inner_text(".answer-table")


@pytest.mark.parametrize("script", [True, False])
def test_a_browser_signs_in_by_the_organization(site: Site, *, script: bool) -> None:
    """Away to the issuer and back, with the strict cookie of the page that comes after."""
    with site.page(java_script_enabled=script) as page:
        page.goto("/sign-in")
        page.click("text=Sign in with your organization")
        page.wait_for_selector("nav")
        assert page.url == f"{site.url}/"
        assert "ana" in page.inner_text(".who")
        page.goto("/history")
        assert page.url.endswith("/history")


def test_light_and_dark_are_chosen_and_kept(site: Site) -> None:
    with site.page(color_scheme="light") as page:
        page.goto("/sign-in")
        color = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(color)
        page.select_option("#scheme", "dark")
        dark = page.evaluate(color)
        assert dark != light
        page.reload()
        assert page.evaluate(color) == dark
        assert page.input_value("#scheme") == "dark"
        check_screen(page, 1280)
        page.select_option("#scheme", "")
        page.reload()
        assert page.evaluate(color) == light


def test_no_other_site_shows_it_in_a_frame(site: Site) -> None:
    with site.page() as page:
        page.goto("/sign-in")
        page.evaluate("window.stop()")
        context = page.context
        other = context.new_page()
        other.route("**/frame.test/", lambda route: route.fulfill(
            content_type="text/html", body=f'<iframe src="{site.url}/sign-in"></iframe>'
        ))  # fmt: skip
        other.goto("http://frame.test/")
        other.wait_for_timeout(500)
        assert all("sign-in" not in (one.url if one.name else "") for one in other.frames)
        assert other.frames[-1].locator("#token").count() == 0
