// The light or dark theme: the system's until one is selected.

const themeListeners = [];
/** Calls `draw` whenever the colours change, for canvases. */
function onThemeChange(draw) { themeListeners.push(draw); }

function stored(value) {
  try {  // a page opened from a file may have no storage
    if (value !== undefined) localStorage.setItem("millrace.theme", value);
    return localStorage.getItem("millrace.theme") ?? "auto";
  } catch { return value ?? "auto"; }
}

function startTheme() {
  let chosen = stored();
  const apply = () => {
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    for (const draw of themeListeners) draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  byId("theme").append(choiceButtons([["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]], chosen, (value) => { chosen = stored(value); apply(); }, "Colours of the page"));
  apply();
}
