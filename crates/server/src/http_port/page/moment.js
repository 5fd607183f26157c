// What changed: the last minute, or a chosen one, beside the minutes before it.

import { clock, count, el, figure, time } from "./figures.js";
import { COMPARED, unitOf } from "./charts.js";
import { nearest } from "./chart.js";

/** Milliseconds: what is compared, and what with. */
const WINDOW = { minutes: { here: 30e3, before: 300e3 }, day: { here: 120e3, before: 3600e3 } };

/** Half as much again is a change that somebody notices. */
const NOTICED = 1.5;

/** So many changes are told, the largest first. */
const MOST = 8;

/** What statements wait for, by the names of columns. */
const LACKED = {
  permit: "permits", long_permits: "permits of long statements", statements_in_flight: "room on shared backends",
  backend_connect: "connections that are being made", max_backends: "free backends", resume: "RESUME",
};

function mean(series, column, from, to) {
  const first = nearest(series.at, from);
  let sum = 0, number = 0;
  for (let i = first; i < series.at.length && series.at[i] <= to; i++) {
    const value = series[column]?.[i];
    if (series.at[i] >= from && value !== null && value !== undefined) sum += value, number++;
  }
  return number ? sum / number : null;
}

/** The changes of a moment, the largest first. */
export function changes(series, span, chosen) {
  if (series.at.length < 3) return [];
  const { here, before } = WINDOW[span];
  const to = chosen ? chosen + here / 6 : series.at.at(-1);
  const from = to - here;
  const found = [];
  for (const [column, title, matters] of COMPARED) {
    const now = mean(series, column, from, to), then = mean(series, column, from - before, from - 1);
    if (now === null || then === null || Math.max(now, then) < matters) continue;
    const ratio = Math.max(now, matters / 10) / Math.max(then, matters / 10);
    if (ratio >= NOTICED || ratio <= 1 / NOTICED) found.push({ column, title, now, then, ratio });
  }
  return found.sort((one, other) => Math.abs(Math.log(other.ratio)) - Math.abs(Math.log(one.ratio))).slice(0, MOST);
}

/** Whether time is lost on the server or in front of it, where it is. */
function verdict(series, chosen) {
  const to = chosen ? chosen + 5e3 : series.at.at(-1);
  const wait = mean(series, "wait_p95", to - 30e3, to), server = mean(series, "server_p95", to - 30e3, to);
  if ((mean(series, "server_down", to - 5e3, to) ?? 0) > 0.5) return "It is the server: it does not answer.";
  if (wait === null || server === null) return "Nothing ran on the server then.";
  const lacks = Object.entries(LACKED).map(([name, words]) => [words, mean(series, `lacks_${name}`, to - 30e3, to) ?? 0])
    .sort((one, other) => other[1] - one[1])[0];
  const locks = mean(series, "lacks_lock", to - 30e3, to) ?? 0;
  if (wait > server) return `It is the waiting: p95 ${time(wait)} before the server, ${time(server)} on it${lacks[1] > 0 ? `; most wait for ${lacks[0]}` : ""}.`;
  const behind = locks >= 1 ? `, where ${count(locks)} wait for locks` : "";
  return `It is the server: p95 ${time(server)} on it${behind}, ${time(wait)} waiting before it.`;
}

/** The panel. */
export function moment(series, span, chosen, marks, letGo) {
  if (series.at.length === 0) return [el("p", { class: "quiet" }, "No samples yet.")];
  const all = changes(series, span, chosen);
  const when = chosen
    ? el("p", {}, el("b", {}, `At ${clock(chosen)} UTC `), el("button", { type: "button", onclick: letGo }, "back to now"))
    : el("p", {}, el("b", {}, span === "day" ? "In the last minutes" : "In the last half minute"), ` beside the ${span === "day" ? "hour" : "five minutes"} before.`);
  const rows = all.map(({ column, title, now, then, ratio }) => el("li", {},
    `${title} `, el("b", {}, figure(now, unitOf(column))), ` from ${figure(then, unitOf(column))}`,
    el("span", { class: ratio > 1 ? "rise" : "fall" }, factor(ratio))));
  const at = chosen ?? series.at.at(-1);
  const near = marks.filter((mark) => Math.abs(mark.at - at) < (span === "day" ? 300e3 : 60e3)).slice(0, 5);
  const events = near.map((mark) => el("li", { class: `event ${mark.level}` }, `${clock(mark.at)} ${mark.text}`));
  return [when, el("p", { class: "verdict" }, verdict(series, chosen)),
    rows.length ? el("ul", { class: "changes" }, rows) : el("p", { class: "quiet" }, "Nothing has changed by half or more."),
    events.length ? el("ul", { class: "near" }, events) : null].filter(Boolean);
}

function factor(ratio) {
  if (ratio >= 1000) return "new";
  if (ratio <= 0.001) return "gone";
  return ratio > 1 ? `× ${ratio >= 10 ? Math.round(ratio) : ratio.toFixed(1)}` : `÷ ${1 / ratio >= 10 ? Math.round(1 / ratio) : (1 / ratio).toFixed(1)}`;
}
