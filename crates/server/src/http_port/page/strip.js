// What stands first: whether it is well, and the few figures that say so.

import { bytes, clock, count, counted, el, figure, percent, time } from "./figures.js";

/** Without an answer for so many milliseconds, data are old. */
export const OLD = 3500;

/** The mean of a column's last samples: single seconds jump. */
function mean(series, column, samples) {
  const values = (series[column] ?? []).slice(-samples).filter((value) => value !== null);
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

function last(series, column) {
  return series[column]?.at(-1) ?? null;
}

/** Banner and headline. `blame` is who is to blame for locks, `age` is how long ago the last answer came, in milliseconds; `trouble` is why the latest did not. */
export function banner(now, blame, age, trouble) {
  const notes = (now?.notes ?? []).map((note) => (note.see === "locks" && blame ? { ...note, text: blame } : note));
  const stale = now ? now.at - now.seen : 0;
  if (age > OLD || stale > OLD) {
    const seconds = Math.round((age + stale) / 1000);
    const why = trouble ? ` (${trouble})` : "";
    notes.unshift({ level: "bad", text: `No data for ${counted(seconds, "second")}${why}: what is shown is as old.`, see: "top" });
  }
  const headline = notes.length ? notes[0].text : now ? "All is well." : "Looking";
  const level = notes.length ? notes[0].level : "good";
  document.getElementById("headline").textContent = headline;
  document.body.className = level + (age > OLD || stale > OLD ? " old" : "");
  const rest = notes.slice(1).map((note) => el("li", { class: `note ${note.level}` }, el("a", { href: `#${note.see}` }, note.text)));
  document.getElementById("notes").replaceChildren(...rest);
  document.title = `${level === "good" ? "well" : headline} · Onramp`;
  if (now) state(now);
}

function state(now) {
  const flag = (is, yes, no, bad) => el("span", { class: is === bad ? "flag off" : "flag" }, is ? yes : no);
  document.getElementById("state").replaceChildren(
    flag(now.live, "live", "not live", false), flag(now.ready, "ready", "not ready", false),
    flag(now.server_up, "server up", "server down", false), flag(now.draining, "draining", "not draining", true),
    flag(now.paused, "paused", "not paused", true), flag(now.reloaded, "configuration read", "reload failed", false));
  const up = time((now.at - now.began) * 1000);
  document.getElementById("kicker").textContent =
    `Onramp ${now.version} in front of ${now.server} · up ${up} · ${clock(now.seen)} UTC`;
}

/** The tiles, of the last so many samples. */
export function strip(now, series, samples) {
  const lately = (of, column) => mean(of, column, samples);
  const waiting = ["urgent", "blocking", "holding", "high", "low", "long", "contended"]
    .reduce((sum, queue) => sum + (last(series, `queue_${queue}`) ?? 0), 0);
  const oldest = last(series, "oldest_queued");
  const permits = last(series, "permits");
  const wait = lately(series, "wait_p95"), server = lately(series, "server_p95");
  const refused = lately(series, "refused") ?? 0, errors = lately(series, "errors") ?? 0;
  const inUse = last(series, "permits_in_use");
  const tiles = [
    [figure(lately(series, "statements"), "/s"), "statements", errors > 0 ? `${count(errors)}/s end in errors` : "no errors"],
    [time(server ?? NaN), "server, p95", `p99 ${time(lately(series, "server_p99") ?? NaN)}`],
    [time(wait ?? NaN), "waiting, p95", whose(wait, server)],
    [permits === null ? count(inUse ?? 0) : `${count(inUse ?? 0)} of ${count(permits)}`, "permits in use", "statements that run at a time"],
    [count(waiting), waiting === 1 ? "statement waits" : "statements wait", oldest > 0 ? `the longest for ${time(oldest)}` : "nobody waits"],
    [`${count(refused)}/s`, "refused", refused > 0 ? "a limit is reached" : "no limit is reached"],
    [count(now.clients), "clients", restart(now)],
    [bytes(last(series, "resident") ?? NaN), "memory", `busiest worker ${percent(lately(series, "busiest_worker"))}`],
  ];
  const warned = [false, false, wait > 100000 && wait > server, false, oldest > 1e6, refused > 0, false, false];
  document.getElementById("strip").replaceChildren(...tiles.map(([number, what, more], place) =>
    el("div", { class: warned[place] ? "tile warned" : "tile" }, el("b", {}, number), el("span", { class: "what" }, what), el("span", {}, more))));
}

/** Whether a statement's time is the server's or ours. */
function whose(wait, server) {
  if (wait === null || server === null) return "nothing ran lately";
  const share = wait / (wait + server || 1);
  return share > 0.5 ? `most of a statement's time (${percent(share)})` : `the server's time is ${percent(1 - share)}`;
}

/** What a restart would break off. */
function restart(now) {
  const parts = [];
  if (now.transactions) parts.push(`${counted(now.transactions, "transaction")} open`);
  if (now.pinned) parts.push(`${count(now.pinned)} pinned`);
  return parts.length ? parts.join(", ") : "nobody holds anything";
}
