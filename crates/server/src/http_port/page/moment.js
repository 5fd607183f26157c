// What changed: the last minute, or a chosen one, beside the minutes before it.

import { clock, count, el, figure, time } from "./figures.js";
import { COMPARED, unitOf } from "./charts.js";
import { nearest } from "./chart.js";

/** Milliseconds: what is compared with what was before. Around a moment that somebody has chosen it is less. */
const WINDOW = { minutes: { here: 30e3, chosen: 4e3, before: 300e3 }, day: { here: 120e3, chosen: 90e3, before: 3600e3 } };

/** Milliseconds: how it stood at the end of these. Of a day a minute has the highest of its seconds. */
const LATELY = { minutes: 5e3, day: 90e3 };

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

/** From when to when is compared. */
function compared(series, span, chosen) {
  const { here, chosen: around } = WINDOW[span];
  const to = chosen ? chosen + around / 2 : series.at.at(-1);
  const from = to - (chosen ? around : here);
  const first = series.at[0];
  // Of a young process half is compared with the other half.
  return { from: from - first < here / 3 ? Math.max(from, (first + to) / 2) : from, to };
}

/** The changes of a moment: what rose, the most first, and then what fell. */
export function changes(series, span, chosen) {
  if (series.at.length < 3) return [];
  const { from, to } = compared(series, span, chosen);
  const found = [];
  for (const [column, title, matters] of COMPARED) {
    const now = mean(series, column, from, to), then = mean(series, column, from - WINDOW[span].before, from - 1);
    if (now === null || Math.max(now, then ?? 0) < matters) continue;
    const ratio = Math.max(now, matters / 10) / Math.max(then ?? 0, matters / 10);
    if (ratio >= NOTICED || ratio <= 1 / NOTICED) found.push({ column, title, now, then, ratio });
  }
  const rank = ({ ratio }) => (ratio > 1 ? 1e9 + ratio : 1 / ratio);
  return found.sort((one, other) => rank(other) - rank(one)).slice(0, MOST);
}

/** Whether time is lost on the server or in front of it, where it is. */
function verdict(series, span, chosen) {
  const { from, to } = compared(series, span, chosen);
  const waited = mean(series, "wait_p95", from, to), server = mean(series, "server_p95", from, to);
  const lately = (column) => mean(series, column, to - LATELY[span], to) ?? 0;
  if (lately("server_down") > 0.5) return "It is the server: it does not answer.";
  if (lately("paused") > 0.5) return "It is an operator's PAUSE: nothing new goes to the server.";
  const [lacked, lacking] = Object.entries(LACKED).map(([name, words]) => [words, mean(series, `lacks_${name}`, from, to) ?? 0])
    .sort((one, other) => other[1] - one[1])[0];
  const lack = lacking > 0 ? `; most wait for ${lacked}` : "";
  const locks = Math.round(mean(series, "lacks_lock", from, to) ?? 0);
  const behind = locks >= 1 ? `, where ${count(locks)} wait for locks` : "";
  // What has not ended has no time yet.
  if (server === null && lately("running") > 0) return `It is the server: nothing ended on it then${behind}.`;
  const oldest = lately("oldest_queued");
  if (server === null && oldest > 0) return `It is the waiting: the longest had waited for ${time(oldest)}${lack}.`;
  if (server === null) return "Nothing ran on the server then.";
  const wait = waited ?? 0;
  if (wait > server) return `It is the waiting: p95 ${time(wait)} before the server, ${time(server)} on it${lack}.`;
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
    `${title} `, el("b", {}, said(now, column)), ` from ${said(then, column)}`,
    el("span", { class: ratio > 1 ? "rise" : "fall" }, factor(now, then ?? 0))));
  const at = chosen ?? series.at.at(-1);
  const near = marks.filter((mark) => Math.abs(mark.at - at) < (span === "day" ? 300e3 : 60e3)).slice(0, 5);
  const events = near.map((mark) => el("li", { class: `event ${mark.level}` }, `${clock(mark.at)} ${mark.text}`));
  return [when, el("p", { class: "verdict" }, verdict(series, span, chosen)),
    rows.length ? el("ul", { class: "changes" }, rows) : el("p", { class: "quiet" }, "Nothing has changed by half or more."),
    events.length ? el("ul", { class: "near" }, events) : null].filter(Boolean);
}

/** Things are counted in whole numbers, also where they are a mean. */
function said(value, column) {
  if (value === null) return "nothing";
  return figure(unitOf(column) === "" ? Math.round(value) : value, unitOf(column));
}

function factor(now, then) {
  if (now > then) return then > 0 ? `× ${rounded(now / then)}` : "new";
  return now > 0 ? `÷ ${rounded(then / now)}` : "gone";
}

function rounded(ratio) {
  return ratio >= 10 ? count(Math.round(ratio)) : ratio.toFixed(1);
}
