// Who and what: the tables below the charts.

import { count, counted, el, figure, percent, time } from "./figures.js";

/** A table; a column is its heading, what makes its cell, and "number" or "text" where it is one that may be long. No rows, no table. */
function table(caption, columns, rows, none) {
  if (!rows || rows.length === 0) return none ? el("p", { class: "quiet" }, none) : null;
  const heads = columns.map(([title, , kind]) => el("th", { scope: "col", class: kind }, title));
  const lines = rows.map((row) => el("tr", {}, columns.map(([, cell, kind]) => el("td", { class: kind }, cell(row) ?? ""))));
  return el("div", { class: "wide" }, el("table", {},
    el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, lines)));
}

function section(id, title, ...children) {
  return el("section", { id }, el("h2", {}, title), ...children);
}

/** Makes texts that filter by themselves when they are pressed. */
function filters(filterBy) {
  return (text) => text && el("button", { type: "button", class: "by", title: "only with this", onclick: () => filterBy(text) }, text);
}

const NOT_LOGGED_IN = "(not logged in)";

function statement(row, texts) {
  const text = row.statement ?? texts[row.digest] ?? row.text;
  return text ? el("code", {}, text) : row.digest ? el("span", { class: "quiet" }, "its text is not known") : "";
}

/** The backend, and the replica that it is on. */
function thread(row) {
  return row.replica ? `${row.backend ?? ""} on ${row.replica}` : `${row.backend ?? ""}`;
}

function times(row, name) {
  return row[name] === undefined || row[name] === null ? "" : time(row[name]);
}

function waiting(crowd, texts, by) {
  const { waiting: all } = crowd;
  const groups = table("Who waits, by user and host", [
    ["user", (row) => by(row.user) || NOT_LOGGED_IN], ["host", (row) => by(row.host)],
    ["waiting", (row) => count(row.clients), "number"], ["longest", (row) => time(row.longest_us), "number"],
  ], all.by_user);
  const rows = table(`The ${all.rows.length} that have waited longest, of ${count(all.seen)}`, [
    ["client", (row) => by(`${row.client}`)], ["user", (row) => by(row.user)], ["address", (row) => row.address],
    ["queue", (row) => row.queue ?? (row.state === "on_replica" ? "for a replica" : "")], ["waited", (row) => times(row, "queued_us"), "number"], ["statement", (row) => statement(row, texts), "text"],
  ], all.rows);
  const running = table(`The ${crowd.running.rows.length} that have run longest, of ${count(crowd.running.seen)}`, [
    ["client", (row) => by(`${row.client}`)], ["user", (row) => by(row.user)], ["thread", thread, "number"],
    ["runs for", (row) => times(row, "running_us"), "number"], ["slow to read", (row) => times(row, "stalled_us"), "number"],
    ["statement", (row) => statement(row, texts), "text"],
  ], crowd.running.rows);
  return section("waiting", "Who waits, and who runs",
    groups ?? el("p", { class: "quiet" }, "Nobody waits."), rows, running ?? el("p", { class: "quiet" }, "Nothing runs on the server at the moment."));
}

/** Holders with whom they block below them. A holder that waits itself stands below whom it waits for. */
function locks(found, texts, by) {
  const key = (client, thread) => (client ? `c${client}` : `t${thread}`);
  const nodes = new Map(found.nodes.map((node) => [key(node.client, node.thread), node]));
  const drawn = new Set();
  const who = (row, more) => el("span", { class: "who" }, by(`${row.client}`), " ", by(row.user) ?? "", ` ${row.address ?? ""} `, more);
  const waiter = (row) => {
    const name = key(row.client);
    return nodes.has(name) && !drawn.has(name) ? branch(nodes.get(name), row)
      : el("li", {}, who(row, `waits for ${time(row.lock_wait_us)} `), statement(row, texts));
  };
  const branch = (node, row) => {
    drawn.add(key(node.client, node.thread));
    const known = node.who ?? row;
    const doing = !known ? `thread ${node.thread ?? ""} of the server: ${node.client ? `client ${node.client}` : "no client of this Onramp"} `
      : known.idle_us !== undefined && known.state === "idle" ? `does nothing for ${time(known.idle_us)}` : `${known.state.replaceAll("_", " ")}`;
    const open = known?.transaction_us ? `, transaction open for ${time(known.transaction_us)}` : "";
    const waits = row ? `, waits for ${time(row.lock_wait_us)}` : "";
    const blocks = el("b", {}, ` blocks ${count(node.behind)} `);
    const more = node.direct - node.waiters.length;
    return el("li", {}, known ? who(known, `${doing}${open}${waits};`) : el("span", { class: "who" }, doing), blocks, known ? statement(known, texts) : "",
      el("ul", {}, node.waiters.map(waiter), more > 0 ? el("li", { class: "quiet" }, `and ${count(more)} more`) : null));
  };
  const roots = found.nodes.filter((node) => !nodes.has(key(node.waits_for_client, node.waits_for_thread)));
  // Those in a circle are below no root.
  const tree = [...roots, ...found.nodes].map((node) => (drawn.has(key(node.client, node.thread)) ? null : branch(node))).filter(Boolean);
  const harmless = table(`${counted(found.harmless.seen, "client")} may hold locks that nobody was seen to wait for; the oldest`, [
    ["client", (row) => by(`${row.client}`)], ["user", (row) => by(row.user)], ["address", (row) => row.address], ["does", (row) => row.state],
    ["transaction", (row) => times(row, "transaction_us"), "number"], ["idle", (row) => times(row, "idle_us"), "number"], ["pins", (row) => row.pins?.join(", ")],
  ], found.harmless.rows);
  return section("locks", "Locks, and whom they block",
    tree.length ? el("ul", { class: "tree" }, tree) : el("p", { class: "quiet" }, "Nobody was seen to wait for anybody's lock."), harmless);
}

function statements(found, chosen, by) {
  const shared = (rows, name) => {
    const whole = rows.reduce((sum, row) => sum + row[name], 0);
    return rows.map((row) => ({ ...row, share: percent(row[name] / whole), each: row.count ? time(row[name] / row.count) : "" }));
  };
  const which = [["digest", (row) => by(row.digest) ?? ""],
    ["statement", (row) => (row.digest ? statement(row, {}) : el("span", { class: "quiet" }, "all that found no place (digests_size)")), "text"]];
  const share = ["share", (row) => row.share, "number"], executions = ["executions", (row) => count(row.count), "number"];
  const each = ["each", (row) => row.each, "number"];
  const own = [["p50", (row) => times(row, "p50_us"), "number"], ["p99", (row) => times(row, "p99_us"), "number"],
    ["longest", (row) => times(row, "max_us"), "number"], ["taken for", (row) => row.taken_for?.join(", ")]];
  const when = chosen ? "in that minute" : "in the last ten minutes";
  return section("statements", `Statements, ${when}`,
    table("By time on the server", [["on the server", (row) => time(row.time_us), "number"], share, executions, each, ...own, ...which],
      shared(found.time, "time_us"), "None ran."),
    table("By waiting", [["waited", (row) => time(row.wait_us), "number"], share, executions, each,
      ["longest wait", (row) => times(row, "max_wait_us"), "number"], ...which], shared(found.wait, "wait_us"), "None waited."),
    table("By errors", [["errors", (row) => count(row.errors), "number"], share, executions,
      ["of them", (row) => percent(row.errors / row.count), "number"], ...which], shared(found.errors, "errors"), "None ended in an error."),
    el("p", { class: "quiet" }, "p50, p99 and the longest are those since the start; shares are of what is shown."));
}

function pins(found, crowd, by) {
  const rows = found.map((pin) => el("article", { class: "pin" },
    el("h3", {}, pin.reason.replaceAll("_", " "), el("span", { class: "quiet" },
      ` ${counted(pin.clients, "client")} now; ${counted(pin.times, "time")}, ${counted(pin.statements, "statement")} since the start`)),
    el("p", {}, pin.advice ?? ""),
    pin.causes?.length ? el("ul", {}, pin.causes.map((cause) => el("li", {},
      cause.text ? el("code", {}, cause.text) : el("span", { class: "quiet" }, "texts that are not known"), ` ${counted(cause.times, "time")} `, by(cause.digest) ?? ""))) : null));
  const groups = table("Which applications pin", [
    ["user", (row) => by(row.user)], ["host", (row) => by(row.host)], ["pinned", (row) => count(row.clients), "number"],
    ["idle longest", (row) => time(row.longest_us), "number"],
    ["for", (row) => Object.entries(row.pins).map(([name, number]) => `${name.replaceAll("_", " ")} ${number}`).join(", "), "text"],
  ], crowd.pinned.by_user);
  return section("pins", "Pins", groups, ...(rows.length ? rows : [el("p", { class: "quiet" }, "Nothing has pinned a client.")]));
}

function clients(crowd, now, by) {
  const idle = crowd.idle_in_transaction;
  const parts = [];
  if (now?.transactions) parts.push(`${counted(now.transactions, "open transaction")} (shutdown_timeout waits for them)`);
  if (now?.pinned) parts.push(counted(now.pinned, "pinned client"));
  const restart = parts.length ? `A restart now would break off ${parts.join(" and ")}` : "A restart now breaks off nothing but what runs";
  return section("clients", "Clients",
    el("p", {}, `${restart}; ${counted(now?.clients ?? 0, "client")} would have to connect again.`),
    table(`Idle in a transaction: ${count(idle.seen)}; the oldest`, [
      ["client", (row) => by(`${row.client}`)], ["user", (row) => by(row.user)], ["address", (row) => row.address], ["schema", (row) => by(row.schema)],
      ["transaction", (row) => times(row, "transaction_us"), "number"], ["idle", (row) => times(row, "idle_us"), "number"],
      ["thread", (row) => `${row.backend ?? ""}`, "number"], ["pins", (row) => row.pins?.join(", ")],
    ], idle.rows, "Nobody is idle in a transaction."));
}

const LOGIN_TIMES = [
  ["how often", (row) => count(row.times.count), "number"], ["p50", (row) => time(row.times.p50_us), "number"], ["p95", (row) => time(row.times.p95_us), "number"],
  ["p99", (row) => time(row.times.p99_us), "number"], ["longest", (row) => time(row.times.max_us), "number"],
];

/** Those of each address together; of Unix sockets the kernel does not tell. */
function acceptQueues(found) {
  const known = found.accept_queues.filter((queue) => queue.waiting !== null);
  const sum = (queues, name) => queues.reduce((all, queue) => all + queue[name], 0);
  const parts = [...new Set(known.map((queue) => queue.address))].flatMap((address, at) => {
    const queues = known.filter((queue) => queue.address === address);
    return [at ? "; " : "", el("span", { class: queues.some((queue) => queue.waiting > queue.bound) ? "off" : null },
      `${count(sum(queues, "waiting"))} of ${count(sum(queues, "bound"))} at ${address}`)];
  });
  return el("p", { class: "accept-queues" }, "Not accepted yet: ", ...(parts.length ? parts : ["not known"]),
    `. ${counted(found.accept_queue_overflows, "time")} since the start a connection met a full queue, of whichever program here.`);
}

function logins(found) {
  const rows = [...found.stages.map((row) => ({ ...row, stage: row.stage.replaceAll("_", " ") })),
    { stage: "all of it", says: "from the connection to the end of the login", times: found.whole }];
  const reasons = found.refused_for.map((one) => `${count(one.count)} ${one.reason.replaceAll("_", " ")}`).join(", ");
  return section("logins", "Logins",
    el("p", {}, `${counted(found.connections, "connection")} since the start, ${count(found.refused)} refused${reasons ? ` (${reasons})` : ""}; `,
      `${count(found.logging_in)} at it now.`),
    acceptQueues(found),
    table("By stage, since the start", [["stage", (row) => row.stage], ["what it is", (row) => row.says, "text"], ...LOGIN_TIMES],
      rows.filter((row) => row.times.count > 0), "Nobody has logged in."));
}

function server(found) {
  const states = Object.entries(found.backends).filter(([, number]) => number > 0).map(([state, number]) => `${number} ${state}`);
  return section("server", "Server",
    el("dl", {},
      el("dt", {}, "address"), el("dd", {}, found.addresses.join(", ") || "private"),
      el("dt", {}, "state"), el("dd", { class: found.up ? null : "off" }, found.up ? "answers" : "does not answer"),
      el("dt", {}, "connections"), el("dd", {}, states.join(", ") || "none"),
      el("dt", {}, "to connect and log in"), el("dd", {}, found.connects.count ? `p50 ${time(found.connects.p50_us)}, p99 ${time(found.connects.p99_us)}` : "–"),
      el("dt", {}, "failed to connect or to log in"), el("dd", {}, counted(found.connect_failures, "time")),
      el("dt", {}, "waiting for locks there"), el("dd", {}, counted(found.lock_waits, "statement"))));
}

function events(all) {
  return section("events", "Events", table("The last lines of the log, the latest first", [
    ["when, UTC", (row) => row.time], ["level", (row) => el("span", { class: `level ${row.level}` }, row.level)],
    ["worker", (row) => (row.worker === null ? "" : `${row.worker}`), "number"], ["what", (row) => row.message, "text"],
  ], all, "None."));
}

function options(all) {
  return section("options", "Options that are not at their defaults", table("docs/OPTIONS.md says what each does", [
    ["option", (row) => row.name], ["value", (row) => el("code", {}, row.value ?? "(set)")], ["default", (row) => el("code", {}, row.default ?? "–")],
    ["from", (row) => row.source], ["changes", (row) => (row.scope === "live" ? "while it runs" : "at the start")],
  ], all, "All are."));
}

function limits(found) {
  const share = (row) => (row.in_use !== null && row.bound ? row.in_use / row.bound : null);
  const bar = (row) => (share(row) === null ? "" : el("meter", { min: 0, max: 1, high: 0.9, value: share(row), title: percent(share(row)) }));
  const would = found.would_refuse.map((one) => el("li", {}, el("b", {}, count(one.times)), ` by `, el("code", {}, `${one.option} = ${one.value}`)));
  return section("limits", "Limits",
    el("p", {}, "Statements that options which are off would have refused since the start:"), el("ul", { class: "would" }, would),
    table("Bounds, those that were reached first", [
      ["option", (row) => row.option], ["of what", (row) => `${row.bounds} (${row.scope})`, "text"], ["in use", (row) => (row.in_use === null ? "" : figure(row.in_use, row.unit)), "number"],
      ["bound", (row) => (row.bound === null ? "none" : figure(row.bound, row.unit)), "number"], ["", bar], ["reached", (row) => counted(row.reached, "time"), "number"],
    ], found.rows));
}

function workers(all) {
  return section("workers", "Workers", table("Event loops", [
    ["worker", (row) => `${row.worker}${row.silent ? ", does not answer" : ""}`], ["driver", (row) => row.driver], ["clients", (row) => count(row.clients), "number"],
    ["backends", (row) => `${count(row.backends)}, ${count(row.idle_backends)} idle`, "number"], ["permits", (row) => count(row.permits), "number"],
    ["queued", (row) => count(row.queued), "number"], ["longest turn of late", (row) => time(row.longest_turn_us), "number"],
    ["by", (row) => (row.longest_turn_statement ? el("code", {}, row.longest_turn_statement) : ""), "text"],
  ], all));
}

/** Who is to blame for most of the waiting for locks, in a sentence; nothing where nobody is. */
export function culprit(found) {
  const roots = found?.crowd.locks.nodes.filter((node) => !node.waits_for_client && !node.waits_for_thread) ?? [];
  if (roots.length === 0 || roots[0].behind === 0) return null;
  const [{ client, thread, who, behind }] = roots;
  const name = client ? `Client ${client}${who ? ` (${who.user} from ${who.address})` : ""}` : `Thread ${thread} of the server, no client of this Onramp,`;
  const idle = who?.state === "idle" ? `, and has done nothing for ${time(who.idle_us)}` : "";
  return `${name} blocks ${count(behind)} by locks${idle}.`;
}

/** All sections. */
export function tables(found, now, chosen, filterBy) {
  const by = filters(filterBy);
  const { crowd, texts } = found;
  const missing = found.missing.length ? el("p", { class: "note bad" }, `Rows are missing: workers ${found.missing.join(", ")} have not answered.`) : null;
  return [missing, waiting(crowd, texts, by), locks(crowd.locks, texts, by), statements(found.digests, chosen, by), pins(found.pins, crowd, by),
    clients(crowd, now, by), logins(found.logins), server(found.server), events(found.events), options(found.options), limits(found.limits),
    workers(found.workers)].filter(Boolean);
}
