// One chart: lines, or areas on top of each other, over time. Drawn as SVG in the page's own pixels, so that texts keep their size.

import { clock, figure, short, svg, el, time } from "./figures.js";

const HEIGHT = 168;
const EDGE = { left: 52, right: 10, top: 8, bottom: 22 };

/** Without samples for so many steps, a line has a gap. */
const GAP = 3;

export class Chart {
  /** `plot` says what is drawn (charts.js); `choose` is told of a moment that somebody has chosen. */
  constructor(plot, choose) {
    this.plot = plot;
    this.choose = choose;
    this.legend = el("ul", { class: "legend" });
    this.picture = svg("svg", { role: "img", height: HEIGHT, "aria-labelledby": `${plot.id}-says` });
    this.says = el("p", { class: "unseen", id: `${plot.id}-says` });
    this.element = el("figure", { id: `chart-${plot.id}`, tabindex: "0" },
      el("figcaption", {}, el("b", {}, plot.title), ` ${plot.note ?? ""}`), this.legend, this.picture, this.says);
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.element.addEventListener("pointerleave", () => this.show(null));
    this.element.addEventListener("click", () => this.shown !== null && this.choose(this.series.at[this.shown]));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.shown = null;
  }

  /** Draws these samples between two moments, with marks at events and at the chosen moment. */
  draw(series, scene) {
    this.series = series;
    this.scene = scene;
    this.width = Math.max(240, this.element.clientWidth - 2);
    this.picture.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.picture.setAttribute("width", this.width);
    const columns = this.plot.series.map(([name]) => series[name] ?? []);
    this.levels = this.plot.stacked ? stack(columns) : columns;
    this.axis = this.plot.log ? logarithmic(this.levels) : linear(this.levels, this.plot.least ?? 4);
    this.picture.replaceChildren(...this.grid(), ...this.marks(), ...this.lines(), ...this.nothing(columns), this.pointer = svg("g"));
    this.show(this.shown !== null && this.shown < series.at.length ? this.shown : null);
    this.element.dataset.points = series.at.length;
  }

  x(at) {
    const { from, to } = this.scene;
    return EDGE.left + ((at - from) / (to - from)) * (this.width - EDGE.left - EDGE.right);
  }

  y(value) {
    return HEIGHT - EDGE.bottom - this.axis.place(value) * (HEIGHT - EDGE.top - EDGE.bottom);
  }

  grid() {
    const lines = this.axis.ticks.map((tick) => [
      svg("path", { class: "grid", d: `M${EDGE.left} ${this.y(tick).toFixed(1)}H${this.width - EDGE.right}` }),
      svg("text", { class: "up", x: EDGE.left - 6, y: this.y(tick) + 4 }, this.tick(tick)),
    ]);
    const hours = times(this.scene.from, this.scene.to, this.width);
    const labels = hours.map((at) => [
      svg("path", { class: "grid", d: `M${this.x(at).toFixed(1)} ${EDGE.top}V${HEIGHT - EDGE.bottom}` }),
      svg("text", { class: "across", x: this.x(at), y: HEIGHT - 6 }, clock(at, false)),
    ]);
    return [...lines, ...labels].flat();
  }

  /** A chart without a figure says so. */
  nothing(columns) {
    if (columns.some((column) => column.some((value) => value !== null))) return [];
    return [svg("text", { class: "across", x: (EDGE.left + this.width) / 2, y: HEIGHT / 2 }, "nothing happened in this time")];
  }

  tick(value) {
    if (this.plot.unit === "us") return time(value);
    if (this.plot.unit === "bytes" || this.plot.unit === "share") return figure(value, this.plot.unit);
    return short(value);
  }

  marks() {
    const { marks, chosen, from, to } = this.scene;
    const within = marks.filter((mark) => mark.at >= from && mark.at <= to);
    const line = (at, name) => svg("path", { class: name, d: `M${this.x(at).toFixed(1)} ${EDGE.top}V${HEIGHT - EDGE.bottom}` });
    const all = within.map((mark) => fillTitle(line(mark.at, `mark ${mark.level}`), mark.text));
    return chosen ? [...all, line(chosen, "chosen")] : all;
  }

  lines() {
    const at = this.series.at;
    const step = this.scene.step * GAP;
    const order = this.plot.series.map((_, place) => place);
    // The lowest area is drawn last, before those behind it.
    if (this.plot.stacked) order.reverse();
    return order.map((place) => {
      const runs = split(at, this.levels[place], step);
      const outline = (run) => `M${run.map((i) => `${this.x(at[i]).toFixed(1)} ${this.y(this.levels[place][i]).toFixed(1)}`).join("L")}`;
      if (!this.plot.stacked) return svg("path", { class: `line c${place + 1}`, d: runs.map(outline).join("") });
      const base = (HEIGHT - EDGE.bottom).toFixed(1);
      const closed = (run) => `${outline(run)}L${this.x(at[run.at(-1)]).toFixed(1)} ${base}L${this.x(at[run[0]]).toFixed(1)} ${base}Z`;
      return svg("path", { class: `area c${place + 1}`, d: runs.map(closed).join("") });
    });
  }

  /** The legend has the figures of one sample: the last one, the one under the pointer, or the chosen one. */
  show(place) {
    this.shown = place;
    if (!this.series) return;
    const { at } = this.series;
    const chosen = this.scene.chosen ? nearest(at, this.scene.chosen) : at.length - 1;
    const here = place ?? chosen;
    const ever = (name) => this.series[name]?.some((value) => value || this.plot.unit === "us" && value === 0);
    const items = this.plot.series.map(([name, title], index) => el("li", { class: ever(name) ? null : "never" },
      el("i", { class: `swatch ${this.plot.stacked ? "area" : "line"} c${index + 1}` }), `${title} `,
      el("b", {}, figure(this.series[name]?.[here], this.plot.unit))));
    if (place !== null) items.push(el("li", { class: "when" }, clock(at[place])));
    this.legend.replaceChildren(...items);
    const says = this.plot.series.map(([name, title]) => `${title} ${figure(this.series[name]?.[here], this.plot.unit)}`);
    this.says.textContent = at.length === 0 ? "no samples yet" : `${this.plot.title} at ${clock(at[here])}: ${says.join(", ")}`;
    this.pointer.replaceChildren(...(place === null ? [] : [
      svg("path", { class: "pointer", d: `M${this.x(at[place]).toFixed(1)} ${EDGE.top}V${HEIGHT - EDGE.bottom}` })]));
  }

  point(event) {
    if (!this.series || this.series.at.length === 0) return;
    const box = this.picture.getBoundingClientRect();
    const share = (event.clientX - box.left - EDGE.left) / (this.width - EDGE.left - EDGE.right);
    const { from, to } = this.scene;
    this.show(share < 0 || share > 1 ? null : nearest(this.series.at, from + share * (to - from)));
  }

  key(event) {
    const last = (this.series?.at.length ?? 0) - 1;
    if (last < 0) return;
    const here = this.shown ?? last;
    const steps = { ArrowLeft: here - 1, ArrowRight: here + 1, PageUp: here - 30, PageDown: here + 30, Home: 0, End: last };
    if (event.key in steps) this.show(Math.min(last, Math.max(0, steps[event.key])));
    else if (event.key === "Enter") this.choose(this.series.at[here]);
    else return;
    event.preventDefault();
  }
}

function fillTitle(element, text) {
  element.append(svg("title", {}, text));
  return element;
}

/** The place of the sample that is nearest. */
export function nearest(at, wanted) {
  let low = 0, high = at.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low > 0 && wanted - at[low - 1] < at[low] - wanted ? low - 1 : low;
}

function stack(columns) {
  const sums = [];
  return columns.map((column) => column.map((value, i) => (sums[i] = (sums[i] ?? 0) + (value ?? 0))));
}

/** Runs of samples that belong to one line: those without a figure, and times without a sample, cut it. */
function split(at, values, gap) {
  const runs = [];
  let run = [];
  values.forEach((value, i) => {
    const broken = value === null || (run.length > 0 && at[i] - at[run.at(-1)] > gap);
    if (broken && run.length > 0) runs.push(run), run = [];
    if (value !== null) run.push(i);
  });
  if (run.length > 0) runs.push(run);
  // A single figure is seen, too.
  return runs.map((one) => (one.length === 1 ? [one[0], one[0]] : one));
}

function highest(levels) {
  return levels.reduce((most, column) => column.reduce((all, value) => Math.max(all, value ?? 0), most), 0);
}

function linear(levels, least) {
  const most = Math.max(least, highest(levels)) * 1.05;
  const size = 10 ** Math.floor(Math.log10(most / 4));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((one) => most / one <= 4.5);
  const ticks = [];
  for (let tick = 0; tick <= most; tick += step) ticks.push(tick);
  return { ticks, place: (value) => value / most };
}

function logarithmic(levels) {
  let least = Infinity;
  for (const column of levels) for (const value of column) if (value > 0 && value < least) least = value;
  const from = Math.floor(Math.log10(Number.isFinite(least) ? Math.min(least, 100) : 100));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(1000, highest(levels)))));
  const ticks = [];
  for (let power = from; power <= to; power += to - from > 5 ? 2 : 1) ticks.push(10 ** power);
  const place = (value) => Math.max(0, (Math.log10(Math.max(value, 10 ** from)) - from) / (to - from));
  return { ticks, place };
}

/** Round times that fit between the edges. */
function times(from, to, width) {
  const steps = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600].map((seconds) => seconds * 1000);
  const wanted = (to - from) / Math.max(2, width / 80);
  const step = steps.find((one) => one >= Math.max(wanted, 60000)) ?? steps.at(-1);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
