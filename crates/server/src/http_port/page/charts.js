// Which charts there are: their columns of samples, each with a name for people.

export const PLOTS = [
  { id: "throughput", title: "Statements", note: "a second", unit: "/s",
    series: [["statements", "started"], ["errors", "errors"], ["refused", "refused"], ["cancelled", "given up"]] },
  { id: "lacking", title: "Waiting", note: "statements, by what they lack", unit: "", stacked: true,
    series: [["lacks_permit", "a permit"], ["lacks_long_permits", "a long permit"], ["lacks_statements_in_flight", "room to share"],
      ["lacks_backend_connect", "a connection"], ["lacks_max_backends", "a free backend"], ["lacks_resume", "RESUME"],
      ["lacks_lock", "a lock, on the server"]] },
  { id: "wait", title: "Time waiting", note: "before the server", unit: "us", log: true,
    series: [["wait_p50", "p50"], ["wait_p95", "p95"], ["wait_p99", "p99"]] },
  { id: "server", title: "Time on the server", note: "the way there and back included", unit: "us", log: true,
    series: [["server_p50", "p50"], ["server_p95", "p95"], ["server_p99", "p99"]] },
  { id: "permits", title: "Permits", note: "and the limit that found itself", unit: "", least: 4,
    series: [["permits_in_use", "in use"], ["permits", "limit"]] },
  { id: "queues", title: "Queues", note: "statements, the first to be served at the bottom", unit: "", stacked: true,
    series: [["queue_urgent", "urgent"], ["queue_blocking", "blocking"], ["queue_holding", "holding"], ["queue_high", "high"],
      ["queue_low", "low"], ["queue_long", "long"], ["queue_contended", "contended"]] },
  { id: "backends", title: "Connections to the server", note: "by what they do", unit: "", stacked: true, least: 4,
    series: [["backends_running", "running"], ["backends_held", "held, doing nothing"], ["backends_idle", "idle"],
      ["backends_opening", "opening"]] },
  { id: "holders", title: "Clients that hold", note: "something of the server's", unit: "", least: 4,
    series: [["holding", "a backend, idle"], ["pinned", "pinned"], ["lock_holders", "locks, perhaps"], ["blocking", "locks others want"]] },
  { id: "clients", title: "Clients", note: "connected", unit: "", least: 4, series: [["clients", "all"], ["logging_in", "logging in"]] },
  { id: "stages", title: "Logins by stage", note: "p95; the first statement's wait for a backend is the last", unit: "us", log: true,
    series: [["login_greeting_p95", "greeting"], ["login_tls_p95", "TLS"], ["login_request_p95", "client's name"],
      ["login_password_p95", "password"], ["login_first_backend_p95", "first backend"], ["login_p95", "to the end"]] },
  { id: "logins", title: "Logins", note: "a second", unit: "/s",
    series: [["logins", "done"], ["refused_logins", "refused"], ["connections", "connections"], ["connect_failures", "failed at the server"]] },
  { id: "process", title: "Onramp itself", note: "how busy its busiest worker is", unit: "share", least: 1,
    series: [["busiest_worker", "busy"]] },
];

/** What is compared when somebody asks what has changed: the column, what it is, and below what it does not matter. */
export const COMPARED = [
  ["server_p99", "p99 on the server", 1000], ["server_p95", "p95 on the server", 1000], ["wait_p99", "p99 of waiting", 1000],
  ["wait_p95", "p95 of waiting", 1000], ["statements", "statements", 5], ["errors", "errors", 1], ["refused", "refused", 1],
  ["cancelled", "given up", 1], ["permits", "the limit of permits", 2], ["lacks_permit", "waiting for permits", 2],
  ["lacks_long_permits", "waiting for long permits", 2], ["lacks_backend_connect", "waiting for connections", 2],
  ["lacks_max_backends", "waiting for free backends", 2], ["lacks_resume", "waiting for RESUME", 1],
  ["lacks_lock", "waiting for locks on the server", 1], ["holding", "idle holders of backends", 2], ["pinned", "pinned clients", 2],
  ["blocking", "clients that block others", 1], ["clients", "clients", 5], ["logins", "logins", 2],
  ["refused_logins", "refused logins", 1], ["connect_failures", "failed connections to the server", 0.2],
  ["server_down", "server away", 0.1], ["busiest_worker", "the busiest worker", 0.2], ["resident", "memory", 50e6],
];

/** Units of columns, for those that are no plain numbers. */
export function unitOf(column) {
  if (/_p\d\d$|^oldest/.test(column)) return "us";
  if (column === "resident") return "bytes";
  if (column === "busiest_worker" || column === "server_down") return "share";
  const rates = ["statements", "errors", "refused", "cancelled", "logins", "refused_logins", "connections", "connect_failures"];
  return rates.includes(column) ? "/s" : "";
}
