#!/usr/bin/env python3
"""Opens report pages in headless Chromium like a user: views, hovers, zooms, sorts, changes the colours.

    report_test.py MAKE_PAGES [--screenshots FOLDER]

MAKE_PAGES is the program that writes the pages. Exit code 77 where no browser is installed: skipped. Every line of the console above "info"
fails the test, and so does any request that leaves the page.
"""
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser, missing
from layout import look_at_widths

PAGES = {"ranks4": 4, "split4": 4, "dualpipe8": 8, "ranks64": 64}
BODY = "document.querySelector('.timeline-body')"


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class ReportPage:
    def __init__(self, browser, path):
        self.browser = browser
        browser.open(path.as_uri())
        browser.wait(f"return {BODY} && {BODY}.dataset.to > 0", what="the timeline")

    def value(self, expression, *arguments):
        return self.browser.run("return " + expression, *arguments)

    def quiet(self):
        bad = [line for line in self.browser.log() if line["level"] not in ("INFO", "DEBUG")]
        check(not bad, f"the console says {bad}")
        check(self.value("document.getElementById('failure').hidden"), "the page shows a failure")

    def range(self):
        return self.value(f"[Number({BODY}.dataset.from), Number({BODY}.dataset.to)]")

    def place(self, rank, index):
        """The place of a measured action in the window, after scrolling to it: x, y, name, colour."""
        return self.browser.run(f"""const body = {BODY}, place = body.placeOf(arguments[0], arguments[1]);
            scrollBy(0, body.getBoundingClientRect().top + place.y - innerHeight / 2);
            const box = body.getBoundingClientRect();
            return {{...place, x: box.left + place.x, y: box.top + place.y, inside: place}}""", rank, index)

    def settle(self):
        """Waits for two frames, after which the requested change is drawn."""
        self.browser.run("window.frames2 = 0; requestAnimationFrame(() => requestAnimationFrame(() => { window.frames2 = 1; }))")
        self.browser.wait("return window.frames2 === 1", what="two frames")


def look_at_everything(page, ranks):
    lists = page.value("JSON.parse(document.getElementById('profile').textContent).timeline.measured.length")
    check(lists == ranks, f"the profile inside the page has {lists} ranks, expected {ranks}")
    check(page.value("performance.getEntriesByType('resource').length") == 0, "the page asked for something else than itself")
    for name in ("timeline", "lateness", "attribution", "operations", "roofline", "memory-ranks", "memory-curve", "loss", "clocks", "run-facts", "summary"):
        check(page.value("document.getElementById(arguments[0]).childElementCount > 0", name), f"{name} is empty")
    bars = page.value("new Set([...document.querySelectorAll('#attribution svg text')].map((text) => text.textContent).filter((text) => text.startsWith('rank '))).size")
    check(bars == ranks, f"{bars} attribution bars with a rank's name, expected {ranks}")
    check(page.value("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window")


def look_at_timeline(page, ranks):
    """Checks pixels of actions at their places: each has its kind's colour in the legend."""
    legend = page.value("[...document.querySelectorAll('#timeline-legend i')].map((box) => getComputedStyle(box).backgroundColor)")
    for rank in {0, ranks // 2, ranks - 1}:
        for index in (0, 1):
            found = page.value(f"""(() => {{
                const body = {BODY}, place = body.placeOf(arguments[0], arguments[1]), scale = body.width / body.clientWidth;
                const pixel = new OffscreenCanvas(1, 1).getContext('2d', {{willReadFrequently: true}});
                pixel.drawImage(body, -Math.floor(place.x * scale), -Math.floor(place.y * scale));
                const [red, green, blue] = pixel.getImageData(0, 0, 1, 1).data;
                return {{pixel: `rgb(${{red}}, ${{green}}, ${{blue}})`, name: place.name}};
            }})()""", rank, index)
            check(found["pixel"] in legend, f"rank {rank}, action {found['name']} has the colour {found['pixel']}, not one of the legend's {legend}")


def hover(page, rank, index):
    place = page.place(rank, index)
    page.browser.hover(place["x"], place["y"])
    shown = page.browser.wait("const box = document.getElementById('tooltip'); return !box.hidden && box.textContent", what="a tooltip")
    check(place["name"] in shown and f"rank{rank}" in shown and "took" in shown, f"the tooltip of {place['name']} on rank {rank} says {shown}")


def zoom(page, rank, shoot):
    """Zooms in at an action by the wheel: the range shrinks and the action stays under the pointer. Then zooms by dragging, and back."""
    whole = page.range()
    place = page.place(rank, 3)
    page.browser.hover(place["x"], place["y"])
    page.browser.run("window.scrollEnd = performance.now()")
    page.browser.wait("return performance.now() - window.scrollEnd > 400", what="the end of scrolling")
    for _ in range(5):
        page.browser.wheel(place["x"], place["y"], -240)
    page.settle()
    near = page.range()
    check(near[1] - near[0] < 0.1 * (whole[1] - whole[0]), f"the wheel changed {whole} to {near} only")
    again = page.place(rank, 3)
    # The pointer is at whole pixels: a distance of a fraction of a pixel from it is magnified too.
    pointer, factor = round(place["x"]), (whole[1] - whole[0]) / (near[1] - near[0])
    expected = pointer + (place["x"] - pointer) * factor
    check(abs(again["x"] - expected) < 0.5, f"zooming took the action beneath the pointer from {place['x']} to {again['x']}, expected {expected}")
    hover(page, rank, 3)
    shoot("zoom")

    page.browser.drag((place["x"] - 60, place["y"]), (place["x"] + 60, place["y"]))
    page.settle()
    marked = page.range()
    check(near[0] < marked[0] < marked[1] < near[1], f"dragging changed {near} to {marked}")
    return whole


def zoom_out(page, whole):
    page.browser.run(f"{BODY}.focus()")
    page.browser.press("0")
    page.settle()
    check(page.range() == whole, f"the key 0 leads to {page.range()}, expected {whole}")


def sort_operations(page):
    column = "[...document.querySelectorAll('#operations-table tbody tr')].map((row) => row.cells[[...document.querySelectorAll('#operations-table th')].findIndex((head) => head.dataset.column === arguments[0])].textContent)"
    button = "#operations-table th[data-column={}] button"
    for name, number in (("ofPeak", True), ("name", False), ("count", True)):
        for order in ("first", "second"):
            page.browser.click(button.format(name))
            direction = page.value("document.querySelector(`th[data-column=${arguments[0]}]`).ariaSort", name)
            cells = [cell for cell in page.value(column, name) if cell != "–"]
            values = [float("".join(letter for letter in cell if letter in "0123456789.")) if number else cell for cell in cells]
            expected = "descending" if (order == "first") == number else "ascending"
            check(direction == expected, f"{order} click on {name} sorts {direction}, expected {expected}")
            sign = -1 if direction == "descending" else 1
            if number:
                sorted_so = all(sign * (two - one) >= 0 for one, two in zip(values, values[1:]))
            else:
                sorted_so = page.value("arguments[0].every((cell, index, cells) => index === 0 || arguments[1] * cells[index - 1].localeCompare(cell) <= 0)", values, sign)
            check(len(values) > 5 and sorted_so, f"{name} {direction} is {values[:20]}")
    stages = page.browser.run("""const select = document.getElementById('operations-stage'); select.value = '1'; select.dispatchEvent(new Event('change'));
        return [...new Set([...document.querySelectorAll('#operations-table tbody tr')].map((row) => row.cells[0].textContent))]""")
    check(stages == ["1"], f"the filter for stage 1 leaves stages {stages}")
    check("stage 1" in page.value("document.getElementById('roofline-what').textContent"), "the roofline does not follow the stage")


def sum_exchanges(page):
    """The table of exchanges: absent without them; sums over layers, and each exchange of each layer."""
    there = page.value("'exchanges' in JSON.parse(document.getElementById('profile').textContent)")
    check(page.value("document.getElementById('exchanges-section').hidden") != there, "the section of exchanges is shown without any, or hidden")
    if not there:
        return
    rows = "[...document.querySelectorAll('#exchanges-table tbody tr')].map((row) => [row.cells[0].textContent, row.cells[row.cells.length - 1].textContent])"
    found = page.value(rows)
    check([name for name, _ in found[:2]] == ["layers.*.mlp.dispatch", "layers.*.mlp.combine"], f"most exposed are {found}")
    check([hidden[:4] for _, hidden in found] == ["50.0", "50.0", "75.0", "75.0"], f"hidden are {found}")
    for group, count in (("operation", 16), ("layer", 4), ("pass", 2)):
        shown = page.browser.run(f"""const select = document.querySelector('#exchanges-controls select'); select.value = '{group}'; select.dispatchEvent(new Event('change'));
            return {rows}""")
        check(len(shown) == count, f"exchanges by {group} have {len(shown)} rows, expected {count}")
    check("62.5" in page.value("document.getElementById('exchanges-what').textContent"), "of all exchanges 62.5 % are hidden")


def switch_everything(page):
    for choice in ("step", "rank"):
        page.browser.click(f"#attribution-controls button[data-value={choice}]")
        names = page.value("document.getElementById('attribution').textContent")
        check(f"{choice} " in names, f"attribution by {choice} says {names[:200]}")
    page.browser.click("#attribution-controls button[data-value=share]")
    check("100" in page.value("document.getElementById('attribution').textContent"), "shares do not go to 100 %")
    colours = []
    for theme in ("light", "dark"):
        page.browser.click(f"#theme button[data-value={theme}]")
        page.settle()
        colours.append(page.value("getComputedStyle(document.querySelector('.panel')).backgroundColor"))
    check(colours[0] != colours[1], f"light and dark panels are both {colours[0]}")


def read_what_costs_most(browser):
    """In a narrow window the sentences have the whole width."""
    browser.resize(500)
    widths = browser.run("return [...document.querySelectorAll('.lateness > :nth-child(3n)')].map((text) => text.clientWidth || text.getBoundingClientRect().width)")
    check(widths and min(widths) > 350, f"in a window of 500 pixels the reasons are {widths} pixels wide")
    browser.resize(None)


def visit(browser, path, ranks, shots):
    page = ReportPage(browser, path)
    name = path.stem

    def shoot(what, whole=False):
        if shots:
            page.settle()
            browser.screenshot(str(shots / f"{name}_{what}.png"), whole)

    rehearsal = page.value("JSON.parse(document.getElementById('profile').textContent).run.kind") == "rehearsal"
    look_at_everything(page, ranks)
    look_at_timeline(page, ranks)
    hover(page, ranks - 1, 1)
    shoot("hover")
    whole = zoom(page, ranks // 2, shoot)
    zoom_out(page, whole)
    if not rehearsal:
        sort_operations(page)
    sum_exchanges(page)
    switch_everything(page)
    look_at_timeline(page, ranks)
    hover(page, 0, 2)
    shoot("dark_hover")
    browser.hover(3, 3)
    for theme in ("light", "dark"):
        browser.run(f"document.querySelector('#theme button[data-value={theme}]').click(); scrollTo(0, 0)")
        shoot(theme, whole=True)
    browser.click("#theme button[data-value=auto]")
    look_at_widths(browser, name, {1400: ["operations"]}, lambda what: shoot(what, whole=True))
    read_what_costs_most(browser)
    page.quiet()
    print(f"{name}: {ranks} ranks, whole step {whole[1]:.1f} ms")


def visit_run(browser, path, shots):
    """The page of a run, which has curves and no script."""
    browser.open(path.as_uri())
    check(browser.run("return document.querySelectorAll('svg path').length") >= 4, "the page of a run has no curves")
    look_at_widths(browser, "the page of a run", {}, shots and (lambda what: browser.screenshot(str(shots / f"run_{what}.png"), True)))


def system_colours(path):
    """On a system with a dark theme the page is dark without a click."""
    with Browser(dark=True) as browser:
        ReportPage(browser, path)
        expected = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
        check(expected == "dark", "the browser did not become dark")
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        check(max(int(part) for part in colour[4:-1].split(",")) < 64, f"the page on a dark system is {colour}")


def main(arguments):
    reason = missing()
    if reason:
        print(reason)
        return 77
    shots = pathlib.Path(arguments[2]) if len(arguments) > 2 and arguments[1] == "--screenshots" else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="millrace_pages_") as folder:
        subprocess.run([arguments[0], folder], check=True)
        pages = pathlib.Path(folder)
        with Browser() as browser:
            for name, ranks in PAGES.items():
                visit(browser, pages / f"{name}.html", ranks, shots)
            visit_run(browser, pages / "run.html", shots)
        system_colours(pages / "ranks4.html")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1:]))
    except AssertionError as error:
        print(f"report_test.py: {error}", file=sys.stderr)
        sys.exit(1)
