// Elements, the shared tooltip, and widths. All text is inserted as text, so a name in a profile can never be interpreted as markup.

function byId(id) { return document.getElementById(id); }

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

function html(tag, attributes = {}, ...children) { return fill(document.createElement(tag), attributes, children); }
function svg(tag, attributes = {}, ...children) { return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children); }
function svgText(x, y, text, kind = "") { return svg("text", {x, y, class: kind}, text); }

/** The current value of a colour in the light or dark theme, for canvases: cssColour("forward"). */
function cssColour(name) {
  const probe = byId("tooltip");  // any element: a custom property itself has no computed colour
  probe.style.outlineColor = `var(--${name})`;
  return getComputedStyle(probe).outlineColor;
}
function swatch(colour) { return html("i", {style: `background: var(--${colour})`}); }

/** Calls draw(width in pixels) now and whenever the element's width changes. Returns a function that draws again. */
function watchWidth(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now > 0 && now !== width) draw(width = now);
  }).observe(element);
  return () => { if (width > 0) draw(width); };
}

/** Shows the tooltip beside the pointer: a title with the colour of its kind, then rows of name and value. */
function showTooltip(event, title, colour, rows) {
  const box = byId("tooltip");
  box.replaceChildren(html("b", {}, colour ? swatch(colour) : null, title),
    html("table", {}, html("tbody", {}, rows.map(([name, value]) => html("tr", {}, html("td", {}, name), html("td", {class: "number"}, value))))));
  box.hidden = false;
  const gap = 14, size = box.getBoundingClientRect();
  const right = event.clientX + gap + size.width < innerWidth, below = event.clientY + gap + size.height < innerHeight;
  box.style.left = Math.max(4, right ? event.clientX + gap : event.clientX - gap - size.width) + "px";
  box.style.top = Math.max(4, below ? event.clientY + gap : event.clientY - gap - size.height) + "px";
}
function hideTooltip() { byId("tooltip").hidden = true; }

/** Gives an SVG element a tooltip. */
function explain(element, title, colour, rows) {
  element.addEventListener("pointermove", (event) => showTooltip(event, title, colour, typeof rows === "function" ? rows() : rows));
  element.addEventListener("pointerleave", hideTooltip);
  return element;
}

/** A group of buttons, exactly one of which is pressed. `choices`: [[value, text], …]; calls chosen(value). */
function choiceButtons(choices, value, chosen, name) {
  const box = html("div", {class: "choice", role: "group", "aria-label": name});
  const press = (now) => { for (const button of box.children) button.setAttribute("aria-pressed", String(button.dataset.value === String(now))); };
  for (const [choice, text] of choices)
    box.append(html("button", {type: "button", "data-value": choice, onclick: () => { press(choice); chosen(choice); }}, text));
  press(value);
  return box;
}

function selectBox(label, choices, value, chosen) {
  const box = html("select", {onchange: () => chosen(box.value)}, choices.map(([choice, text]) => html("option", {value: choice}, text)));
  box.value = value;
  return html("label", {}, label, box);
}

/** A plain table. `columns`: [[title, "number" or ""], …]; a cell is text or an element. */
function plainTable(columns, rows) {
  return html("table", {}, html("thead", {}, html("tr", {}, columns.map(([title, kind]) => html("th", {class: kind, scope: "col"}, title)))),
    html("tbody", {}, rows.map((row) => html("tr", {}, row.map((cell, index) => html("td", {class: columns[index][1]}, cell))))));
}

function sentence(text) { return html("p", {class: "hint"}, text); }
