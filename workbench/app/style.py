"""The style of what surrounds a page: chips in the top bar, the bar of a phone, and presentations.

Streamlit's own elements keep the style of its theme; here are only places and sizes that a theme
cannot set. Costs: nothing.
"""

import streamlit as st

from workbench.app.tables_and_figures import kind
from workbench.drawing.theme import FAINT, PAPER, Kind

_LINE: dict[Kind, str] = {"light": "#d5dce3", "dark": "#3a4551"}  # as in .streamlit/config.toml
_ACCENT: dict[Kind, str] = {"light": "#1f6fa8", "dark": "#6bb3ea"}  # of links and outlines
_ALWAYS = """<style>
/* in prose it would also widen hyphens */
table, dl, input[type="number"], [data-testid="stMetricValue"], [data-testid="stDataFrame"] {
  font-variant-numeric: tabular-nums;
}
/* contrast of at least 4.5, and no text under 12 px */
[data-testid="stCaptionContainer"] { opacity: 1; color: var(--shell-faint); }
[data-testid="stCaptionContainer"] * { color: inherit; }
[data-testid="stExpander"] summary p { color: var(--shell-faint); }
[data-testid="stExpander"] summary { opacity: 1 !important; }
[data-testid="stMarkdownContainer"] code { font-size: max(0.87em, 12px); }
[data-testid="InputInstructions"], [data-testid="stFileUploaderFile"] * { font-size: 12px; }
[data-testid="InputInstructions"] { background: var(--shell-page); border-radius: 4px; }
[data-testid="stTooltipIcon"] svg { width: 1rem; height: 1rem; }
[data-testid="stCode"] .token:is(.function, .builtin, .string, .parameter, .number) {
  color: var(--shell-accent);
}
button[data-variant]:is([aria-checked="true"], [aria-pressed="true"], [data-selected]) p {
  color: var(--shell-accent);
}
[data-testid="stTab"][aria-selected="true"] p { color: var(--shell-accent); }
/* a link that has the focus, which else looks like one under the pointer */
a:focus-visible { outline: 2px solid var(--shell-accent) !important; outline-offset: 1px; }
/* below a figure of several panels */
p.swipe { display: none; font-size: 13px; margin: 0; color: var(--shell-faint); }
/* Plotly writes #444 on the lighter cells of a map */
.heatmap-label text[style*="rgb(68, 68, 68)"] { fill: #000 !important; }
/* chips of the model, the corpus and the jobs, in the bar on the right */
.st-key-context {
  position: fixed; top: 0.8rem; right: 3.25rem; z-index: 999991; width: auto;
  max-width: calc(100vw - 28rem); flex-wrap: nowrap; justify-content: flex-end;
  align-items: center;
}
.st-key-context [data-testid="stPopoverButton"], .st-key-context button {
  min-height: 2rem; padding: 0.1rem 0.6rem; font-size: 13px; white-space: nowrap;
}
.st-key-context [data-testid="stPopoverButton"] p, .st-key-context button p {
  font-size: 13px; display: block; overflow: hidden; text-overflow: ellipsis;
  max-width: 15rem !important;
}
/* else nearly black on a dark page */
[data-testid="stPopoverButton"][kind="tertiary"][aria-expanded="true"] {
  color: var(--shell-accent) !important;
}
/* what is said of a chip would cover its open menu */
body:has(.st-key-context [aria-expanded="true"]:hover) [data-testid="stTooltipContent"] {
  display: none;
}
[data-testid="stPopoverBody"]:has([class*="st-key-way-"]) { width: min(24rem, 94vw); }
/* the menu of the theme is in the bar; that a page is being drawn is said in the lower corner */
[data-testid="stMainMenuPopover"] * { font-size: max(12px, 1em); }
[data-testid="stMainMenuItem-recordScreencast"],
[data-testid="stMainMenuPopover"] div:has(> * > .stMenuVersionCopyButton) { display: none; }
[data-testid="stStatusWidget"] {
  position: fixed; inset: auto 0.75rem 0.75rem auto; border-radius: 6px;
  background: var(--shell-page);
}
[data-testid="stLayoutWrapper"]:has(> [class*="st-key-kept-"]) { display: none; }
/* both are outside the flow of the page */
[data-testid="stLayoutWrapper"]:has(> .st-key-context),
[data-testid="stLayoutWrapper"]:has(> .st-key-phone-bar) { position: absolute; }
.st-key-phone-bar { display: none; }
@media (max-width: 1000px) and (min-width: 641px) {
  .st-key-context [data-testid="stPopoverButton"] p { max-width: 7rem !important; }
}
@media (max-width: 640px) {
  .st-key-context {
    top: 0.5rem; right: 3rem; left: 0.5rem; max-width: none; justify-content: flex-start;
    overflow-x: auto; scrollbar-width: none;
  }
  .st-key-context button p, .st-key-context [data-testid="stPopoverButton"] p {
    max-width: 6.5rem !important;
  }
  .st-key-context [data-testid="stPopoverButton"] p { /* its first line: without its size */
    height: 1.5em; line-height: 1.5; white-space: normal; overflow-wrap: anywhere; text-align: left;
  }
  .st-key-context:has(.st-key-jobs) { gap: 0.25rem; } /* room for a third chip */
  .st-key-context:has(.st-key-jobs) [data-testid="stPopoverButton"] p {
    max-width: 3.25rem !important;
  }
  [data-testid="stStatusWidget"] { bottom: 4.5rem !important; }
  .st-key-present { display: none; }
  /* all pages are in the bar at the bottom */
  [data-testid="stSidebar"], [data-testid="stExpandSidebarButton"] { display: none; }
  [data-testid="stHeader"] { height: 3rem; min-height: 3rem; }
  .st-key-phone-bar {
    display: flex; position: fixed; bottom: 0; left: 0; right: 0; z-index: 999991; width: 100%;
    padding: 0.25rem 0.25rem calc(0.25rem + env(safe-area-inset-bottom));
    background: var(--shell-page); border-top: 1px solid var(--shell-line);
    flex-wrap: nowrap; justify-content: space-around;
  }
  .st-key-phone-bar a { flex-direction: column; gap: 0; padding: 0.25rem; min-width: 3.5rem; }
  .st-key-phone-bar a p, .st-key-phone-bar button p { font-size: 12px; }
  .st-key-phone-bar [data-testid="stPopoverButton"] { border: 0; padding: 0.25rem; }
  [data-testid="stMainBlockContainer"] { padding: 3.25rem 1rem 6rem; }
  h1 { font-size: 18px !important; padding: 0.25rem 0 !important; }
  .st-key-model-numbers { row-gap: 8px; }
  [data-testid="stPageLink"] a p { white-space: normal; } /* a long link is read to its end */
  p.swipe { display: block; }
  /* the figure first, then its words, which stay in view when it is moved sideways */
  [class*="st-key-drawn-3"], [class*="st-key-drawn-4"] { overflow-x: auto; }
  [class*="st-key-drawn-"] > * { position: sticky; left: 0; }
  [class*="st-key-drawn-"] > :has([data-testid="stPlotlyChart"]) { order: -1; position: static; }
  [class*="st-key-drawn-3"] > :has([data-testid="stPlotlyChart"]) { min-width: 630px; }
  [class*="st-key-drawn-4"] > :has([data-testid="stPlotlyChart"]) { min-width: 860px; }
  [class*="st-key-drawn-"] > :has(p.swipe) { order: -1; }
}
/* without a pointer that hovers Plotly shows its buttons always, over numbers and titles */
@media (max-width: 640px), (hover: none) { .modebar-container { display: none; } }
@media (prefers-reduced-motion: reduce) {
  *, *::before, *::after { animation-duration: 0.01ms !important; transition: none !important; }
}
</style>"""
# pages that show one text: near the top, the choices in one line, drawers without boxes
_TEXT_PAGE = """<style>
[data-testid="stMainBlockContainer"] { padding: 4.25rem 2rem 3rem; }
[data-testid="stMainBlockContainer"] h1 { padding: 0 0 0.25rem; }
.st-key-controls-text { flex-wrap: wrap; }
.st-key-controls-text > :has([data-testid="stTextInput"]) { flex: 1 1 240px; }
[class*="st-key-line-"] > :has([data-testid="stTextInput"]) { flex: 1 1 260px; }
[data-testid="stExpander"] details { border: 0; border-radius: 0; }
[data-testid="stExpander"] summary { padding: 0.25rem 0; }
[data-testid="stExpander"] [data-testid="stExpanderDetails"] { padding: 0.25rem 0; }
@media (max-width: 1000px) {
  .st-key-beside [data-testid="stHorizontalBlock"]:has(> [data-testid="stColumn"]) {
    flex-wrap: wrap;
  }
  .st-key-beside > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"] {
    flex: 1 1 100%; min-width: 100%;
  }
}
@media (max-width: 640px) {
  [class*="st-key-line-"] > :has([data-testid="stTextInput"]) { flex-basis: 100%; }
  [data-testid="stMainBlockContainer"] { padding: 3.25rem 1rem 6rem; }
}
</style>"""
_PRESENT = """<style>
/* the button fades, since it is over the figure; the pointer brings it back */
.st-key-leave-presentation { opacity: 0.35; transition: opacity 0.2s; }
@media (hover: hover) and (prefers-reduced-motion: no-preference) {
  .st-key-leave-presentation { opacity: 0; animation: fading 6s; }
  @keyframes fading { from, 70% { opacity: 1; } }
}
.st-key-leave-presentation:is(:hover, :focus-within) { opacity: 1; }
/* nothing that an audience reads is under 24 px: captions have 0.87 of this */
html { font-size: 28px !important; }
:root { --enlarged: 2; } /* what components multiply their sizes by: 12 px are 24 */
@media (min-width: 1900px) and (min-height: 1700px) {
  html { font-size: 52px !important; }
  :root { --enlarged: 3.6; }
}
[data-testid="stMain"] :is(p, li, label, input, button, dl, dt, dd, td, th, summary, .all-heads) {
  font-size: max(24px, 0.87rem) !important;
}
[data-testid="stMain"] mark ~ span { font-size: 24px !important; } /* names of marked words */
h1 { font-size: 1.2rem !important; }
h2, h3 { font-size: 1.1rem !important; }
/* one thing at a time, over the height of the window */
.st-key-beside [data-testid="stHorizontalBlock"]:has(> [data-testid="stColumn"]) {
  flex-wrap: wrap;
}
.st-key-beside > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"] {
  flex: 1 1 100%; min-width: 100%; min-height: calc(100vh - 2rem);
}
.st-key-beside [data-testid="stExpander"], .st-key-beside [data-testid="stPageLink"] {
  display: none;
}
/* of a result: its findings, the figure in all the width, and the open tab */
.st-key-result-top { display: flex !important; }
.st-key-result-numbers, .st-key-result-facts,
[data-testid="stMain"]:has(.st-key-result-top) :is([data-testid="stExpander"], dl.numbers) {
  display: none !important;
}
[data-testid="stHeader"], .st-key-context, .st-key-phone-bar, [class*="st-key-controls"],
[data-testid="stLayoutWrapper"]:has(> [class*="st-key-controls"]) {
  display: none !important;
}
/* a text stays, to be edited */
[data-testid="stMain"] :is([class*="st-key-controls"], :has(> [class*="st-key-controls"])):has(
  > [data-testid="stElementContainer"] > [data-testid="stTextInput"],
  > * > [data-testid="stElementContainer"] > [data-testid="stTextInput"]
):not(.st-key-controls-runs, :has(> .st-key-controls-runs)) {
  display: flex !important;
}
[class*="st-key-controls"] > :not(:has([data-testid="stTextInput"])) { display: none; }
[data-testid="stTextInput"] :is(input, div) { height: auto; min-height: 2.2rem; }
[data-testid="stMainBlockContainer"] { padding-top: 1rem !important; max-width: none; }
.st-key-tour-card { width: min(94vw, 60rem) !important; padding: 8px 3rem 8px 16px !important; }
:is(.st-key-tour-card, .st-key-tour-card *) { row-gap: 0.25rem !important; }
/* of a lesson only the words and the question: keys step, and the audience answers aloud */
.st-key-tour-card :is(
  [data-testid="stTextInput"] > div, [data-testid="stFormSubmitButton"],
  [data-testid="stLayoutWrapper"]:has(> * > .st-key-end-of-the-tour)
) { display: none; }
[data-testid="stMain"] [data-testid="stTooltipIcon"]:not(:has(a)) { display: none; }
[data-testid="stMarkdownContainer"] code { font-size: 1em !important; }
#workbench-blank { position: fixed; inset: 0; z-index: 1000000; background: #000; }
#workbench-pen {
  position: fixed; inset: 0; z-index: 999999; cursor: crosshair; touch-action: none;
}
.st-key-leave-presentation {
  position: fixed; top: 0.25rem; right: 0.5rem; z-index: 999991; width: auto;
}
</style>"""


# The stage tells a second window, which shows notes, where it is, and does what is pressed there.
# Left and right: the tab before and after; Page Up and Page Down: the figure or heading before and
# after, or the step of a lesson; B: a black screen; P: a pen; C: the card of a lesson folded or
# open; Escape: leave. A part of the page that has the focus, such as a box or a map, comes first.
_KEYS = """<script>
if (!window.workbenchKeys) {
  window.workbenchKeys = true;
  const pen = () => {  // draw over the page until the key is pressed again
    const before = document.querySelector("#workbench-pen");
    if (before) return before.remove();
    const sheet = Object.assign(document.createElement("canvas"),
      { id: "workbench-pen", width: innerWidth, height: innerHeight });
    const ink = Object.assign(sheet.getContext("2d"),
      { strokeStyle: "#d9230d", lineWidth: 4, lineCap: "round", lineJoin: "round" });
    sheet.onpointerdown = (event) => { ink.beginPath(); ink.moveTo(event.x, event.y); };
    sheet.onpointermove = (event) => {
      if (event.buttons) { ink.lineTo(event.x, event.y); ink.stroke(); }
    };
    document.body.append(sheet);
  };
  const stage = new BroadcastChannel("workbench-stage");
  let sent = "";
  const tell = () => {
    const at = new URLSearchParams(location.search);
    sent = location.search;
    const step = Number(at.get("tour"));
    if (at.get("present") === "1") stage.postMessage({ lesson: at.get("lesson") ?? "", step });
  };
  setInterval(() => location.search !== sent && tell(), 200);
  stage.onmessage = ({ data: { key, where } }) => {
    if (key) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    if (where) tell();
  };
  const parts = "[data-testid=stPlotlyChart], [data-testid=stBidiComponentIsolated], h1, h2, h3, " +
    ".st-key-beside [data-testid=stColumn]";
  document.addEventListener("keydown", (event) => {
    const at = event.composedPath()[0];
    // A line of text has no use for these keys, so they act after a sentence is typed.
    const line = /^(Page|Escape)/.test(event.key) && at.matches?.("[data-testid=stTextInputField]");
    const busy = (line ? at.parentElement : at).closest?.("input, textarea, select, " +
      "[role=listbox], [role=dialog], [contenteditable], [role=grid], canvas, svg");
    if (new URLSearchParams(location.search).get("present") !== "1" || event.defaultPrevented ||
        busy || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
    const way = step && event.key.startsWith("Page") &&
      document.querySelector(`.st-key-lesson-${step > 0 ? "next" : "back"} :is(a, button)`);
    const dark = document.querySelector("#workbench-blank");
    if (dark || event.key === "b" || event.key === ".") {
      if (dark) dark.remove();
      else document.body.append(Object.assign(document.createElement("div"),
        { id: "workbench-blank", onclick() { this.remove(); } }));
    } else if (event.key === "p") {
      pen();
    } else if (event.key === "c" && document.querySelector("#fold-card")) {
      document.querySelector("#fold-card").click();
    } else if (way) {
      document.querySelector("#workbench-pen")?.remove();
      if (line) at.blur(); // the next key is not typed into it
      way.click();
    } else if (event.key === "Escape") {
      document.querySelector(".st-key-leave-presentation button")?.click();
    } else if (event.key.startsWith("Arrow") && step) {
      const tabs = [...document.querySelectorAll("[role=tab]")].filter((tab) => tab.offsetParent);
      const now = tabs.findIndex((tab) => tab.ariaSelected === "true");
      tabs[now + step]?.click();
      tabs[now + step]?.scrollIntoView({ block: "start" });
      if (!tabs.length) return;
    } else if (step) {
      const main = document.querySelector("[data-testid=stMain]");
      const tops = [...main.querySelectorAll(parts)].filter((part) => part.offsetParent)
        .map((part) => part.getBoundingClientRect().top);
      const to = step > 0 ? tops.find((top) => top > 0.4 * innerHeight)
        : tops.findLast((top) => top < 8);
      main.scrollBy({ top: (to ?? step * innerHeight) - 16,
        behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    } else return;
    event.preventDefault();
  });
}
</script>"""


# A menu that the keyboard opens gets the focus; Streamlit leaves it on the button, many stops away.
_FOCUS = """<script>
if (!window.workbenchFocus) {
  window.workbenchFocus = true;
  document.addEventListener("click", (event) => {
    if (event.detail || !event.target.closest?.("[data-testid=stPopoverButton]")) return;
    setTimeout(() => {
      const body = document.querySelector("[data-testid=stPopoverBody]");
      [...(body?.querySelectorAll("input, textarea, button, a[href]") ?? [])]
        .find((each) => each.offsetParent && !each.ariaLabel?.startsWith("Help"))?.focus();
    }, 100);
  });
}
</script>"""


def draw() -> None:
    """Place the chips, and the bar of a phone; move the focus into menus."""
    st.html(_FOCUS, unsafe_allow_javascript=True)
    theme = kind()
    st.html(
        f"{_ALWAYS}<style>:root {{ --shell-page: {PAPER[theme]}; --shell-line: {_LINE[theme]}; "
        f"--shell-accent: {_ACCENT[theme]}; --shell-faint: {FAINT[theme]}; }}</style>"
    )


def draw_text_page() -> None:
    """Place what is above the text of a page that shows one."""
    st.html(_TEXT_PAGE)


def draw_present() -> None:
    """Enlarge the text, hide what surrounds the page, and listen to the keys that move in it."""
    st.html(_PRESENT)
    st.html(_KEYS, unsafe_allow_javascript=True)
