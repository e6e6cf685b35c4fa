"""What holds on each of our pages at any width: nothing is cut without a sign, tiles are equally high, and pictures are legible in light and dark."""
WIDTHS = (500, 900, 1400)

# Elements that reach beyond the window, unless a box that scrolls cuts them.
CUT = """return [...document.querySelectorAll('body *')].filter((element) => element.getClientRects().length && !element.closest('svg, .fades, #tooltip')
    && element.getBoundingClientRect().right > innerWidth + 1).map((element) => element.outerHTML.slice(0, 120))"""
# Returns for each box that scrolls its name, how much it hides on the right and below, how far these edges fade out, and whether it has a mask.
BOXES = """return [...document.querySelectorAll('.fades')].filter((box) => box.clientWidth > 0).map((box) => [box.id,
    [box.scrollWidth - box.clientWidth - box.scrollLeft, box.scrollHeight - box.clientHeight - box.scrollTop],
    ['right', 'bottom'].map((side) => parseFloat(getComputedStyle(box).getPropertyValue('--fade-' + side)) || 0), getComputedStyle(box).maskImage !== 'none'])"""
TILES = "return [...document.querySelectorAll('.tile')].map((tile) => Math.round(tile.getBoundingClientRect().height * 2) / 2)"
# Brightness of the text of pictures and of what is behind them, from 0 to 255.
LEGIBLE = """const bright = (colour) => { const [red, green, blue] = colour.match(/[\\d.]+/g).map(Number); return 0.3 * red + 0.59 * green + 0.11 * blue; };
    const behind = (element) => { for (; element; element = element.parentElement) { const colour = getComputedStyle(element).backgroundColor; if (!/, 0\\)$|transparent/.test(colour)) return bright(colour); } return 255; };
    return [...document.querySelectorAll('svg text')].filter((text) => !text.style.fill).map((text) => [text.textContent, bright(getComputedStyle(text).fill), behind(text)])"""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def look_at_widths(browser, what, whole_at=(), shoot=None):
    """`whole_at`: {width: identifiers of boxes that show all of their content at that width}."""
    for width in WIDTHS:
        browser.resize(width, 900)
        check(browser.run("return document.documentElement.scrollWidth <= innerWidth"), f"{what} is wider than a window of {width} pixels")
        cut = browser.run(CUT)
        check(not cut, f"{what}, {width} pixels wide, cuts {cut[:3]}")
        for name, hidden, fades, masked in browser.run(BOXES):
            check([pixels > 1 for pixels in hidden] == [fade > 0 for fade in fades] and masked == (max(fades) > 0),
                  f"{what}, {width} pixels wide: {name} hides {hidden} pixels on the right and below, and fades {fades}, masked: {masked}")
            check(hidden[0] <= 1 or name not in dict(whole_at).get(width, ()), f"{what}, {width} pixels wide: {name} cuts {hidden[0]} pixels, expected all of its columns")
        squeezed = browser.run("return [...document.querySelectorAll('svg[preserveAspectRatio=none]')].map((svg) => [svg.clientWidth, svg.viewBox.baseVal.width]).filter(([shown, drawn]) => shown && Math.abs(shown - drawn) > 1)")
        check(not squeezed, f"{what}, {width} pixels wide: pictures (shown, drawn) are {squeezed} pixels wide")
        heights = set(browser.run(TILES))
        check(len(heights) <= 1, f"{what}, {width} pixels wide: tiles are {heights} pixels high, expected one height")
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            texts = browser.run(LEGIBLE)
            bad = [text for text in texts if (text[1] < text[2] + 60) if scheme == "dark"] + [text for text in texts if (text[1] > text[2] - 60) if scheme == "light"]
            check(not bad, f"{what}, {scheme}: text that is hard to read (text, its brightness, that behind it): {bad[:3]}")
            if shoot:
                shoot(f"{scheme}_{width}")
    browser.prefer(None)
    browser.resize(None)
