// The page: asks how things stand each second and for the tables each five, and keeps what is asked for in the address.

import { Chart } from "./chart.js";
import { PLOTS } from "./charts.js";
import { moment } from "./moment.js";
import { banner, strip } from "./strip.js";
import { culprit, tables } from "./tables.js";

const LENGTH = { minutes: 600e3, day: 86400e3 };
const STEP = { minutes: 1e3, day: 60e3 };

/** The least that a chart spans while there are few samples. */
const LEAST = { minutes: 60e3, day: 1800e3 };

/** Milliseconds between two questions. */
const PACE = { now: 1000, tables: 5000, retry: 1000 };

/** An answer that takes longer does not come. */
const PATIENCE = 8000;

const page = {
  now: null, answered: performance.now(), trouble: null, series: { at: [] }, tables: null, marks: [],
  ...wanted(),
};

/** What the address asks for. */
function wanted() {
  const asked = new URLSearchParams(location.search);
  const at = Number(asked.get("at"));
  return {
    span: asked.get("span") === "day" ? "day" : "minutes", filter: asked.get("q") ?? "",
    chosen: Number.isFinite(at) && at > 0 ? at : null,
  };
}

function remember() {
  const asked = new URLSearchParams();
  if (page.span === "day") asked.set("span", "day");
  if (page.filter) asked.set("q", page.filter);
  if (page.chosen) asked.set("at", page.chosen);
  const text = asked.toString();
  history.replaceState(null, "", (text ? `?${text}` : location.pathname) + location.hash);
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
  if (!answer.ok) throw Object.assign(new Error(`${answer.status}`), { status: answer.status });
  return answer.json();
}

/** How things stand, with what came since. */
async function look() {
  const span = page.span;
  try {
    const since = page.series.at.at(-1) ?? 0;
    const now = await ask(`api/now?span=${span}&since=${since}`);
    if (span !== page.span) return;
    // Another process has begun anew.
    if (page.now && now.began !== page.now.began) page.series = { at: [] };
    add(now.series, now.at - LENGTH[span]);
    Object.assign(page, { now, answered: performance.now(), trouble: null });
  } catch (error) {
    page.trouble = error.status ? `HTTP ${error.status}` : "Onramp does not answer";
  }
  show();
}

function add(fresh, from) {
  const known = page.series.at;
  const first = known.findIndex((at) => at >= from);
  const drop = first < 0 ? known.length : first;
  for (const [name, values] of Object.entries(fresh)) {
    page.series[name] = (page.series[name] ?? []).slice(drop).concat(values);
  }
}

/** Who and what. */
async function lookAtTables() {
  const asked = new URLSearchParams();
  if (page.filter) asked.set("q", page.filter);
  if (page.chosen) asked.set("from", page.chosen), asked.set("to", page.chosen + 60e3);
  const query = asked.toString();
  try {
    page.tables = await ask(`api/tables?${query}`);
    page.marks = marks(page.tables.events);
    document.getElementById("tables").replaceChildren(...tables(page.tables, page.now, page.chosen, filterBy));
  } catch (error) {
    return error.status === 503 ? PACE.retry : PACE.tables;
  }
  return PACE.tables;
}

/** Lines of the log that charts mark: what went wrong, and what operators did. */
function marks(events) {
  const told = events.filter((event) => ["error", "warn"].includes(event.level) || event.event.startsWith("server_") || event.message.startsWith("admin: "));
  const seen = new Set();
  return told.map((event) => ({ at: Date.parse(`${event.time.replace(" ", "T")}Z`), level: event.level, text: event.message }))
    .filter((mark) => !seen.has(mark.at) && seen.add(mark.at));
}

const charts = PLOTS.map((plot) => new Chart(plot, choose));

/** Draws everything that follows from how things stand. */
function show() {
  banner(page.now, culprit(page.tables), performance.now() - page.answered, page.trouble);
  if (!page.now) return;
  const { series, span, chosen } = page;
  const to = series.at.at(-1) ?? page.now.seen;
  const oldest = Math.min(series.at[0] ?? to, to - LEAST[span]);
  const scene = { from: Math.max(to - LENGTH[span], oldest), to, step: STEP[span], marks: page.marks, chosen };
  charts.forEach((chart) => chart.draw(series, scene));
  strip(page.now, series, span === "day" ? 1 : 5);
  document.getElementById("moment").replaceChildren(...moment(series, span, chosen, page.marks, () => choose(null)));
}

function choose(at) {
  page.chosen = at;
  remember();
  show();
  soon();
}

function filterBy(text) {
  page.filter = text;
  document.getElementById("filter").value = text;
  remember();
  soon();
}

let timer;

/** The tables at once, as something else of them is wanted. */
function soon() {
  clearTimeout(timer);
  timer = setTimeout(turnTables, 200);
}

async function turnTables() {
  clearTimeout(timer);
  const pause = document.hidden ? PACE.tables : await lookAtTables();
  clearTimeout(timer);
  timer = setTimeout(turnTables, pause);
}

async function turn() {
  // Nobody looks: nobody asks.
  if (!document.hidden) await look();
  setTimeout(turn, PACE.now);
}

function controls() {
  const form = document.getElementById("controls");
  form.elements.span.value = page.span;
  document.getElementById("filter").value = page.filter;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    if (form.elements.span.value === page.span) return;
    Object.assign(page, { span: form.elements.span.value, series: { at: [] } });
    remember();
    look();
  });
  document.getElementById("filter").addEventListener("input", (event) => filterBy(event.target.value));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && page.chosen) choose(null);
    if (event.key === "/" && event.target.tagName !== "INPUT") {
      event.preventDefault();
      document.getElementById("filter").focus();
    }
  });
  document.addEventListener("visibilitychange", () => document.hidden || look());
  addEventListener("resize", show);
}

document.getElementById("plots").append(...charts.map((chart) => chart.element));
controls();
turn();
turnTables();
// Also while no answer comes.
setInterval(() => banner(page.now, culprit(page.tables), performance.now() - page.answered, page.trouble), 1000);
