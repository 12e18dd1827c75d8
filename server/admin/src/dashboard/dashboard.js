
"use strict";
// Shows snapshots of /status. Each value is set as text, never as markup: host names, paths and errors come from
// clients.

const NAMESPACE = "http://www.w3.org/2000/svg";
const HISTORY = 600;
const DAY = 86400;

const find = (id) => document.getElementById(id);

function make(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "text") node.textContent = value;
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function makeSvg(tag, properties) {
  const node = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Values as text.

const NONE = "\u2013";

function count(value) {
  if (value === null || value === undefined) return NONE;
  const steps = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [size, unit] of steps) {
    const shown = unit === "k" ? value / 1e3 : value / size;
    if (Math.abs(value) >= size) return shown.toFixed(shown < 100 ? 1 : 0) + " " + unit;
  }
  return String(Math.round(value));
}

function rate(value) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  if (value < 0.05) return "<0.1";
  return value < 100 ? value.toFixed(1) : count(value);
}

function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return (unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)) + " " + units[unit];
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0.001) return "<1 ms";
  if (seconds < 1) return (seconds * 1000).toPrecision(seconds < 0.1 ? 2 : 3) + " ms";
  return seconds < 100 ? seconds.toPrecision(3) + " s" : period(seconds);
}

function period(seconds) {
  const [sign, all] = [seconds < 0 ? "-" : "", Math.abs(seconds)];
  const days = Math.floor(all / DAY);
  const hours = Math.floor((all % DAY) / 3600);
  const minutes = Math.floor((all % 3600) / 60);
  if (days >= 3) return `${sign}${days} d`;
  if (days > 0) return `${sign}${days} d ${hours} h`;
  if (hours > 0) return `${sign}${hours} h ${minutes} min`;
  if (minutes > 0) return `${sign}${minutes} min`;
  return `${sign}${Math.floor(all)} s`;
}

function share(value) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0 %";
  return value < 0.001 ? "<0.1 %" : (value * 100).toFixed(1) + " %";
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
const moment = (seconds) => new Date(seconds * 1000).toLocaleString();

// Charts: the last ten minutes.

const CHARTS = [
  { column: "request_rate", title: "Requests", show: (v) => rate(v) + " /s" },
  { column: "error_rate", title: "Errors", show: (v) => rate(v) + " /s", isBad: (v) => v > 0 },
  { column: "p99", title: "p99 latency", show: duration },
  { column: "in_flight", title: "Requests in flight", show: count },
  { column: "connections", title: "Connections", show: count },
  { column: "sent_rate", title: "Sent", show: (v) => bytes(v) + "/s" },
  { column: "cpu", title: "CPU", show: (v) => (v === null ? NONE : (v * 100).toFixed(0) + " %") },
  { column: "resident_bytes", title: "Memory", show: bytes },
];

let columns = [];
let points = [];

function addChart(chart) {
  chart.now = make("span", { class: "now", text: NONE });
  chart.svg = makeSvg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", role: "img" });
  chart.area = makeSvg("path", { class: "area" });
  chart.curve = makeSvg("path", { class: "curve" });
  chart.mark = makeSvg("line", { class: "mark", y1: 0, y2: 100, visibility: "hidden" });
  chart.svg.append(makeSvg("line", { class: "base", x1: 0, x2: 600, y1: 100, y2: 100 }));
  chart.svg.append(chart.area, chart.curve, chart.mark);
  chart.left = make("span", { text: "10 min ago" });
  chart.right = make("span", { text: "" });
  const caption = make("figcaption", {}, make("h2", { text: chart.title }), chart.now);
  const axis = make("div", { class: "axis" }, chart.left, chart.right);
  chart.figure = make("figure", {}, caption, chart.svg, axis);
  find("charts").append(chart.figure);
  chart.svg.addEventListener("pointermove", (event) => {
    const box = chart.svg.getBoundingClientRect();
    chart.hover = Math.round(((event.clientX - box.left) / box.width) * HISTORY);
    drawChart(chart);
  });
  chart.svg.addEventListener("pointerleave", () => {
    chart.hover = undefined;
    drawChart(chart);
  });
}

function drawChart(chart) {
  const at = columns.indexOf(chart.column);
  if (at < 0 || points.length === 0) return;
  const end = points[points.length - 1][0];
  const values = points.map((point) => point[at]);
  const max = Math.max(...values.filter((value) => value !== null), 0);
  const x = (point) => HISTORY - (end - point[0]);
  const y = (value) => (max > 0 ? 100 - (value / max) * 94 : 100);
  let curve = "";
  let area = "";
  let start = null;
  let last = null;
  const close = () => {
    if (start !== null) area += `L${last} 100L${start} 100Z`;
    start = null;
  };
  points.forEach((point, index) => {
    const value = values[index];
    if (value === null || x(point) < 0) return close();
    const place = `${x(point).toFixed(1)} ${y(value).toFixed(1)}`;
    const isFirst = start === null;
    if (isFirst) start = x(point).toFixed(1);
    // A lone point is drawn as a short line.
    curve += isFirst ? `M${place}h0.5` : `L${place}`;
    area += isFirst ? `M${place}` : `L${place}`;
    last = x(point).toFixed(1);
  });
  close();
  chart.curve.setAttribute("d", curve);
  chart.area.setAttribute("d", area);
  const latest = values[values.length - 1];
  setText(chart.now, chart.show(latest));
  chart.figure.classList.toggle("bad", Boolean(chart.isBad && chart.isBad(latest)));
  const peak = `max ${chart.show(max)}`;
  chart.svg.setAttribute("aria-label", `${chart.title}: ${chart.show(latest)} now, ${peak} in ten minutes`);
  const near = chart.hover === undefined ? null : nearest(end - HISTORY + chart.hover);
  chart.mark.setAttribute("visibility", near === null ? "hidden" : "visible");
  if (near !== null) {
    chart.mark.setAttribute("x1", x(points[near]));
    chart.mark.setAttribute("x2", x(points[near]));
  }
  setText(chart.left, near === null ? "10 min ago" : clock(points[near][0]));
  setText(chart.right, near === null ? peak : chart.show(values[near]));
}

function nearest(time) {
  let best = null;
  points.forEach((point, index) => {
    if (best === null || Math.abs(point[0] - time) < Math.abs(points[best][0] - time)) best = index;
  });
  return best;
}

// Actions: what the configuration allows, as the snapshot says. The server checks each again.

let allowed = new Set();
const panels = new WeakMap();

const actionColumn = (offers) => ({ title: "Actions", value: () => "", offers });

function serverOffers() {
  if (!allowed.has("reload")) return [];
  return [{ action: "reload", title: "Reload", question: "Read the configuration again?", yes: "Reload now", body: () => ({}) }];
}

function upstreamOffers(row) {
  const upstream = row.address;
  const offers = [];
  if (allowed.has("drain")) {
    offers.push(row.draining
      ? { action: "drain", title: "End draining", question: `Send ${upstream} new requests again?`, yes: "Send requests", body: () => ({ upstream, drain: false }) }
      : { action: "drain", title: "Drain", question: `Send ${upstream} no new requests?`, yes: "Drain now", body: () => ({ upstream, drain: true }) });
  }
  if (allowed.has("eject")) {
    offers.push(row.ejected !== null
      ? { action: "eject", title: "End ejection", question: `Send ${upstream} requests again?`, yes: "Send requests", body: () => ({ upstream, seconds: 0 }) }
      : {
        action: "eject", title: "Eject", question: `Send ${upstream} no requests for this many seconds:`, yes: "Eject now",
        field: { type: "number", min: "1", max: "3600", step: "1", value: "30", required: "", "aria-label": "Seconds" },
        body: (value) => ({ upstream, seconds: Number(value) }),
      });
  }
  return offers;
}

function cacheOffers(row) {
  const cache = row.name;
  if (!allowed.has("purge")) return [];
  const body = (value) => (value.endsWith("*") ? { cache, prefix: value.slice(0, -1) } : { cache, key: value });
  const field = { type: "text", required: "", placeholder: "key, or prefix*", maxlength: "8192", "aria-label": "Key, or the beginning of keys and an asterisk" };
  return [{ action: "purge", title: "Purge", question: "Remove the responses with this key:", yes: "Purge now", field, body }];
}

function addPanel(where) {
  const panel = { offers: [], titles: "", asked: null, index: 0, field: null };
  panel.buttons = make("span", { class: "offers" });
  panel.ask = make("span", { class: "ask", role: "group", tabindex: "-1" });
  panel.ask.hidden = true;
  panel.said = make("span", { class: "said", role: "status" });
  panel.ask.addEventListener("keydown", (event) => {
    // Letters typed here are none of the page's keys.
    event.stopPropagation();
    if (event.key === "Escape") closeQuestion(panel);
    if (event.key !== "Enter" || event.target !== panel.field) return;
    // Otherwise the same key would press the button that gets the focus.
    event.preventDefault();
    if (!event.repeat) act(panel);
  });
  where.append(make("div", { class: "panel" }, panel.buttons, panel.ask, panel.said));
  panels.set(where, panel);
  return panel;
}

// Shows the buttons in `where`. They are made anew only when they change, so that the focus stays where it is.
function drawPanel(where, offers) {
  const panel = panels.get(where) || (offers.length > 0 ? addPanel(where) : null);
  if (panel === null) return;
  panel.offers = offers;
  const titles = offers.map((offer) => offer.title).join();
  if (panel.asked || panel.titles === titles) return;
  panel.titles = titles;
  const focused = [...panel.buttons.children].indexOf(document.activeElement);
  const buttons = offers.map((offer, index) => {
    const button = make("button", { type: "button", text: offer.title });
    button.addEventListener("click", () => openQuestion(panel, index));
    return button;
  });
  panel.buttons.replaceChildren(...buttons);
  if (focused >= 0 && buttons.length > 0) buttons[Math.min(focused, buttons.length - 1)].focus();
}

function drawOffers(cell, offers) {
  cell.className = "actions";
  cell.hidden = offers.length === 0;
  drawPanel(cell, offers);
}

// Asks before anything happens. Its field or the question itself gets the focus: a key that is held down must not confirm it.
function openQuestion(panel, index) {
  const offer = panel.offers[index];
  if (!offer) return;
  const yes = make("button", { type: "button", class: "yes", text: offer.yes });
  const no = make("button", { type: "button", text: "Cancel" });
  yes.addEventListener("click", () => act(panel));
  no.addEventListener("click", () => closeQuestion(panel));
  panel.field = offer.field ? make("input", offer.field) : null;
  panel.asked = offer;
  panel.index = index;
  panel.ask.setAttribute("aria-label", offer.question);
  panel.ask.replaceChildren(make("span", { text: offer.question }), ...(panel.field ? [panel.field] : []), yes, no);
  panel.ask.hidden = false;
  panel.buttons.hidden = true;
  say(panel, "", "");
  (panel.field || panel.ask).focus();
}

function closeQuestion(panel) {
  panel.asked = null;
  panel.field = null;
  panel.ask.hidden = true;
  panel.buttons.hidden = false;
  const button = panel.buttons.children[panel.index];
  if (button) button.focus();
}

function say(panel, mark, words) {
  panel.said.className = `said ${mark}`;
  setText(panel.said, words);
}

async function act(panel) {
  const offer = panel.asked;
  if (!offer || (panel.field && !panel.field.reportValidity())) return;
  const body = JSON.stringify(offer.body(panel.field ? panel.field.value : ""));
  closeQuestion(panel);
  say(panel, "", "\u2026");
  try {
    // In the default mode, `cors`, browsers send the Origin, which the server requires, although the page has no referrer.
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(`/dashboard/actions/${offer.action}`, { method: "POST", headers, body });
    const outcome = await response.json();
    if (response.ok) say(panel, "good", outcome.result);
    else say(panel, "bad", outcome.error || `status ${response.status}`);
  } catch (error) {
    say(panel, "bad", `no response: ${error.message}`);
  }
}

function drawActions(next) {
  allowed = new Set(next.actions);
  drawPanel(find("server-actions"), serverOffers());
  for (const table of TABLES) {
    const index = table.columns.findIndex((column) => column.offers);
    if (index < 0) continue;
    const wanted = table.id === "caches" ? ["purge"] : ["drain", "eject"];
    table.titles[index].hidden = !wanted.some((action) => allowed.has(action));
  }
}

// Tables.

const isShare = (value) => (value > 0.05 ? "bad" : value > 0.01 ? "warn" : "");
const text = (title, value, more) => ({ title, value, show: (v) => v || NONE, ...more });
const number = (title, value, show, more) => ({ title, value, show, isNumber: true, ...more });

const siteColumns = [
  text("Site", (row) => row.name, { class: "name" }),
  number("Requests/s", (row) => row.rate_10s, rate),
  number("1 min", (row) => row.rate_1m, rate),
  number("Errors", (row) => row.error_share_1m, share, { mark: isShare }),
  number("p50", (row) => row.p50_1m, duration),
  number("p99", (row) => row.p99_1m, duration),
  number("In flight", (row) => row.in_flight, count),
  number("Requests", (row) => row.requests, count),
  number("4xx", (row) => row.responses["4xx"], count),
  number("5xx", (row) => row.responses["5xx"], count),
  number("Received", (row) => row.bytes_received, bytes),
  number("Sent", (row) => row.bytes_sent, bytes),
];

// sluice renews its own certificates when a third of their lifetime is left. The same rule is in `Certificate::urgency`.
function expiry(row) {
  if (row.expires === null) return "bad";
  const left = row.expires - Date.now() / 1000;
  const length = row.expires - row.valid_from;
  const [soon, critical] = row.managed ? [length / 5, length / 10] : [10 * DAY, 3 * DAY];
  return left < critical ? "bad" : left < soon ? "warn" : "";
}

const TABLES = [
  {
    id: "sites", title: "Sites", key: "s", rows: siteRows, total: (s) => s.sites.total, columns: siteColumns,
    empty: "No site is configured.", always: true, filter: true, sort: 2,
  },
  {
    id: "fleet", title: "Fleet", key: "n", rows: (s) => (s.fleet ? s.fleet.nodes : []),
    total: (s) => (s.fleet ? s.fleet.nodes_total : 0), note: fleetNote, identify: (row) => row.node,
    bad: (rows) => rows.filter((row) => row.state === "refuses" || row.state === "gone").length,
    columns: [
      text("Node", (row) => row.node, { class: "name" }),
      text("State", (row) => row.state.replace("_", " "),
        { mark: (v) => (v === "in sync" ? "good" : v === "refuses" || v === "gone" ? "bad" : "warn") }),
      text("Revision", (row) => row.running, { class: "mono" }),
      text("Version", (row) => row.version),
      number("Reported", (row) => row.reported, (v) => (v === null ? NONE : period(Math.max(0, Date.now() / 1000 - v)) + " ago")),
      number("Behind", (row) => row.lag, (v) => (v === null ? NONE : period(v)), { mark: (v) => (v === null ? "" : "warn") }),
      number("Store", (row) => row.store_seconds, duration),
      number("Errors", (row) => row.error_share, share, { mark: isShare }),
      text("Certificates", (row) => (row.certificates_failing > 0 ? `${row.certificates}, ${row.certificates_failing} failing` : String(row.certificates)),
        { mark: (v, row) => (row.certificates_failing > 0 ? "bad" : "") }),
      number("Expires in", (row) => row.expires, (v) => (v === null ? NONE : period(v - Date.now() / 1000)),
        { hint: (v) => (v === null ? "" : moment(v)) }),
      text("Locks", (row) => row.locks.join(", "), { class: "wrap" }),
    ],
  },
  {
    id: "upstreams", title: "Upstreams", key: "u", rows: (s) => s.upstreams.rows, total: (s) => s.upstreams.total,
    bad: (rows) => rows.filter((row) => !row.healthy).length,
    columns: [
      text("Upstream", (row) => row.address, { class: "name" }),
      text("State", (row) => (row.ejected !== null ? "ejected" : row.draining ? "draining" : row.healthy ? "up" : "down"),
        { mark: (v) => (v === "up" ? "good" : v === "down" ? "bad" : "warn") }),
      text("Why", (row) => row.reasons.join("; "), { class: "wrap" }),
      number("In flight", (row) => row.in_flight, count),
      number("Recent failures", (row) => row.failures, count),
      number("Circuit trips", (row) => row.circuit_trips, count),
      actionColumn(upstreamOffers),
    ],
  },
  {
    id: "failures", limit: 10, title: "Failed requests", key: "f", rows: (s) => s.failures,
    total: (s) => s.failures.length, always: true, empty: "No request has failed on our side.",
    note: (s) => (s.failures_omitted > 0 ? `the latest; ${count(s.failures_omitted)} more were not recorded` : "the latest"),
    identify: (row) => [row.at, row.id, row.path, row.error].join(" "),
    columns: [
      text("Time", (row) => row.at, { show: clock }),
      text("Status", (row) => row.status, { mark: () => "bad", show: (v) => (v ? String(v) : "none") }),
      text("Request", (row) => `${row.method} ${row.host}${row.path}`, { class: "wrap" }),
      text("Error", (row) => row.error, { class: "wrap" }),
      text("Upstream", (row) => row.upstream),
      text("Error ID", (row) => row.id, { class: "mono" }),
    ],
  },
  {
    id: "certificates", title: "Certificates", rows: (s) => s.certificates.rows, total: (s) => s.certificates.total,
    bad: (rows) => rows.filter((row) => row.last_failure || expiry(row) === "bad").length,
    columns: [
      text("Names", (row) => row.names.join(", "), { class: "name" }),
      number("Expires in", (row) => row.expires, (v) => (v === null ? "not obtained" : period(v - Date.now() / 1000)),
        { mark: (v, row) => expiry(row), hint: (v) => (v === null ? "" : moment(v)) }),
      text("Origin", (row) => row.origin, { class: "wrap" }),
      text("Renewal", (row) => (row.managed ? "automatic" : "from file")),
      text("Last failure", (row) => row.last_failure, { class: "wrap", mark: (v) => (v ? "bad" : "") }),
      text("Next attempt", (row) => (row.failures > 0 ? row.next_attempt : null), { show: (v) => (v ? moment(v) : NONE) }),
    ],
  },
  {
    id: "caches", title: "Caches", rows: (s) => s.caches.rows, total: (s) => s.caches.total,
    columns: [
      text("Cache", (row) => row.name, { class: "name" }),
      number("Hit rate", (row) => row.hit_share, share),
      number("Hits", (row) => row.hits, count),
      number("Misses", (row) => row.misses, count),
      number("Bypassed", (row) => row.bypassed, count),
      number("Entries", (row) => row.entries, count),
      number("Size", (row) => row.bytes, bytes),
      number("Sent", (row) => row.bytes_sent, bytes),
      number("Evicted", (row) => row.evicted, count),
      number("File errors", (row) => row.failures, count, { mark: (v) => (v > 0 ? "bad" : "") }),
      actionColumn(cacheOffers),
    ],
  },
  {
    id: "rate_limits", small: true, title: "Rate limits", rows: (s) => s.rate_limits.rows, total: (s) => s.rate_limits.total,
    columns: [
      text("Zone", (row) => row.name, { class: "name" }),
      number("Requests", (row) => row.requests, count),
      number("Refused", (row) => row.refused, count),
      number("Keys", (row) => row.keys, count),
      number("Keys dropped", (row) => row.forgotten, count),
    ],
  },
  {
    id: "concurrency", small: true, title: "Concurrency limits", rows: (s) => s.concurrency_limits.rows,
    total: (s) => s.concurrency_limits.total, identify: (row, index) => row.name + index,
    columns: [
      text("Limit", (row) => row.name, { class: "name" }),
      number("In flight", (row) => row.in_flight, count),
      number("Waiting", (row) => row.waiting, count),
      number("Refused", (row) => row.refused, count),
      number("Keys", (row) => row.keys, count),
      number("Maximum per key", (row) => row.max, count),
    ],
  },
  {
    id: "python", title: "Python", rows: (s) => s.python.rows, total: (s) => s.python.total,
    bad: (rows) => rows.filter((row) => row.state === "failed").length, identify: (row, index) => row.name + index,
    columns: [
      text("Application", (row) => row.name || row.module, { class: "name" }),
      text("State", (row) => row.state, { mark: (v) => (v === "ready" ? "good" : v === "failed" ? "bad" : "warn") }),
      text("Processes", (row) => `${row.processes_ready} of ${row.processes} ready`),
      number("In flight", (row) => row.in_flight, count),
      number("Queued", (row) => row.queued, count),
      number("Refused", (row) => row.refused, count),
      number("Requests", (row) => row.requests, count),
      number("Restarts", (row) => row.restarts, count),
      number("Memory", (row) => row.resident_bytes, bytes),
      text("Last failure", (row) => row.last_failure, { class: "wrap" }),
    ],
  },
  {
    id: "overload", small: true, title: "Overload", rows: overloadRows, total: (s) => overloadRows(s).length,
    note: () => "since the process started; only what occurred",
    columns: [
      text("What", (row) => row.name, { class: "name" }),
      number("Count", (row) => row.value, count),
    ],
  },
  {
    id: "workers", small: true, title: "Workers", rows: (s) => s.workers, total: (s) => s.workers.length, always: true, empty: "No worker runs.",
    identify: (row) => String(row.worker),
    columns: [
      text("Worker", (row) => String(row.worker), { class: "name" }),
      number("Connections", (row) => row.connections, count),
      number("Accepted", (row) => row.accepted, count),
      number("In flight", (row) => row.in_flight, count),
      number("Requests", (row) => row.requests, count),
    ],
  },
];

function fleetNote(snapshot) {
  const { fleet, config_source: source } = snapshot;
  if (!fleet) return "";
  const notes = [`read by ${source ? source.node : "this node"} at ${clock(fleet.at)}`];
  notes.push(fleet.revision ? `revision ${fleet.revision}` : "no configuration");
  if (fleet.canary) notes.push(`canary ${fleet.canary}`);
  if (fleet.pushing) notes.push("a push is in progress");
  return notes.join("; ");
}

function siteRows(snapshot) {
  const { rows, rest, total } = snapshot.sites;
  return rest ? [...rows, { name: `(${total - rows.length} more sites)`, ...rest }] : rows;
}

function overloadRows(snapshot) {
  const names = {
    accept_pauses: "Pauses of accepting, for lack of connections or open files",
    handshakes_shed: "TLS handshakes shed",
    handshakes_failed: "TLS handshakes failed",
    connections_calmed: "HTTP/2 and HTTP/3 connections closed for causing too much work",
    slow_requests: "Requests ended because their bodies arrived too slowly",
    slow_responses: "Responses ended because clients read them too slowly",
    buffers_refused: "Bodies without a temporary file, because there were too many",
    log_lines_dropped: "Log lines dropped, because an output was too slow",
    panics: "Panics",
  };
  const rows = Object.entries(names).map(([key, name]) => ({ name, value: snapshot.overload[key] || 0 }));
  rows.push({ name: "Connections refused", value: snapshot.connections.refused });
  return rows.filter((row) => row.value > 0);
}

function addTable(table) {
  table.count = make("span", { text: "0" });
  table.link = make("a", { href: `#${table.id}` }, `${table.title} `, table.count);
  find("sections").append(table.link);
  table.note_node = make("span", { class: "dim" });
  const head = make("div", { class: "head" }, make("h2", { text: table.title }), table.note_node);
  if (table.filter) {
    table.field = make("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${table.title.toLowerCase()}` });
    table.field.addEventListener("input", () => draw());
    head.append(table.field);
  }
  if (table.limit) {
    table.all = make("button", { type: "button", text: "Show all" });
    table.all.addEventListener("click", () => {
      table.isOpen = !table.isOpen;
      setText(table.all, table.isOpen ? "Show fewer" : "Show all");
      draw();
    });
    head.append(table.all);
  }
  table.titles = table.columns.map((column, index) => {
    if (column.offers) return make("th", { scope: "col", class: "actions", text: column.title });
    const button = make("button", { type: "button", text: column.title });
    button.addEventListener("click", () => sortBy(table, index));
    return make("th", { scope: "col", class: column.isNumber ? "num" : "" }, button);
  });
  table.body = make("tbody");
  table.sheet = make("table", {}, make("thead", {}, make("tr", {}, ...table.titles)), table.body);
  table.sheet.setAttribute("aria-label", table.title);
  table.none = make("p", { class: "empty", text: table.empty || "" });
  table.section = make("section", { id: table.id, class: table.small ? "small" : "", tabindex: "-1" }, head, make("div", { class: "scroll" }, table.sheet), table.none);
  find("main").append(table.section);
  table.nodes = new Map();
  if (table.sort !== undefined) table.order = { column: table.sort, down: true };
}

function sortBy(table, column) {
  const isSame = table.order && table.order.column === column;
  table.order = { column, down: isSame ? !table.order.down : Boolean(table.columns[column].isNumber) };
  draw();
}

function sorted(table, rows) {
  if (!table.order) return rows;
  const { column, down } = table.order;
  const value = table.columns[column].value;
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  };
  return [...rows].sort(compare);
}

function drawTable(table, snapshot) {
  const all = table.rows(snapshot);
  let rows = sorted(table, all);
  const wanted = table.field ? table.field.value.trim().toLowerCase() : "";
  if (wanted) rows = rows.filter((row) => row.name.toLowerCase().includes(wanted));
  if (table.limit) table.all.hidden = rows.length <= table.limit;
  if (table.limit && !table.isOpen) rows = rows.slice(0, table.limit);
  const total = table.total(snapshot);
  const isShown = table.always || total > 0;
  table.section.hidden = !isShown;
  table.link.hidden = !isShown;
  const bad = table.bad ? table.bad(all) : 0;
  setText(table.count, bad > 0 ? `${bad} of ${total}` : String(total));
  table.count.className = bad > 0 ? "bad" : "";
  const notes = [];
  if (table.note) notes.push(table.note(snapshot));
  if (wanted) notes.push(`${rows.length} of ${all.length} match`);
  else if (all.length < total) notes.push(`${all.length} of ${total} shown`);
  setText(table.note_node, notes.join("; "));
  table.none.hidden = all.length > 0;
  table.sheet.hidden = all.length === 0;
  table.titles.forEach((title, index) => {
    const isOrder = table.order && table.order.column === index;
    if (!isOrder) title.removeAttribute("aria-sort");
    else title.setAttribute("aria-sort", table.order.down ? "descending" : "ascending");
  });
  const identify = table.identify || ((row) => row.name || row.address || (row.names && row.names.join(" ") + row.origin));
  const before = table.nodes;
  table.nodes = new Map();
  let previous = null;
  rows.forEach((row, index) => {
    let key = identify(row, index);
    while (table.nodes.has(key)) key += "'";
    const node = before.get(key) || makeRow(table);
    before.delete(key);
    table.nodes.set(key, node);
    fillRow(table, node, row);
    // Moving a node would lose its selection, so only those out of order move.
    const next = previous === null ? table.body.firstChild : previous.nextSibling;
    if (next !== node) table.body.insertBefore(node, next);
    previous = node;
  });
  for (const node of before.values()) node.remove();
}

function makeRow(table) {
  return make("tr", {}, ...table.columns.map(() => make("td")));
}

function fillRow(table, node, row) {
  table.columns.forEach((column, index) => {
    const cell = node.children[index];
    if (column.offers) return drawOffers(cell, column.offers(row));
    const value = column.value(row);
    setText(cell, String(column.show(value)));
    const marks = [column.class, column.isNumber ? "num" : "", column.mark ? column.mark(value, row) : ""];
    const names = marks.filter(Boolean).join(" ");
    if (cell.className !== names) cell.className = names;
    if (column.hint) cell.title = column.hint(value);
  });
}

// Facts and problems.

function drawFacts(snapshot) {
  const { server, reloads, connections, process } = snapshot;
  const last = reloads.last;
  let reload = reloads.loaded_at ? moment(reloads.loaded_at) : NONE;
  if (last) reload = `${last.ok ? "loaded" : "rejected"} ${moment(last.at)} (${last.trigger})`;
  const facts = {
    Version: server.version,
    Uptime: period(server.uptime),
    Configuration: reload,
    Connections: connections.max ? `${count(connections.open)} of ${count(connections.max)}` : count(connections.open),
    "Open files": process.files_max ? `${count(process.open_files)} of ${count(process.files_max)}` : count(process.open_files),
    PID: String(server.pid),
  };
  const source = snapshot.config_source;
  if (source) {
    const behind = source.lag === null ? "" : `, ${period(source.lag)} behind`;
    facts.Fleet = `${source.node} of ${source.place}, revision ${source.running || NONE}${behind}`;
  }
  const list = find("facts");
  Object.entries(facts).forEach(([name, value], index) => {
    let node = list.children[index];
    if (!node) {
      node = make("div", {}, make("dt", { text: name }), make("dd"));
      list.append(node);
    }
    setText(node.lastChild, value);
  });
}

function problems(snapshot) {
  const found = [];
  const { reloads, upstreams, certificates, python, requests } = snapshot;
  if (reloads.last && !reloads.last.ok) {
    const when = moment(reloads.last.at);
    found.push(["bad", `The configuration was rejected at ${when}; the one before stays in use.\n${reloads.last.error || ""}`]);
  }
  const source = snapshot.config_source;
  if (source && source.refusal) found.push(["bad", `The configuration of ${source.place} was refused.\n${source.refusal}`]);
  else if (source && source.error) found.push(["bad", `${source.place} cannot be read: ${source.error}`]);
  if (snapshot.fleet) found.push(...fleetProblems(snapshot.fleet));
  const down = upstreams.rows.filter((row) => !row.healthy);
  if (down.length > 0) {
    const names = down.slice(0, 5).map((row) => row.address).join(", ");
    const more = down.length > 5 ? ` and ${down.length - 5} more` : "";
    found.push(["bad", `${down.length} of ${upstreams.total} upstreams are down: ${names}${more}`]);
  }
  for (const row of certificates.rows.slice(0, 3)) {
    const mark = expiry(row);
    if (row.last_failure) found.push(["bad", `No certificate could be obtained for ${row.names.join(", ")}: ${row.last_failure}`]);
    else if (mark && row.expires !== null) found.push([mark, `The certificate for ${row.names.join(", ")} expires in ${period(row.expires - snapshot.at)}`]);
  }
  for (const row of python.rows.filter((one) => one.state === "failed")) {
    found.push(["bad", `The Python application ${row.name || row.module} has failed: ${row.last_failure || "no process could be started"}`]);
  }
  if (requests.error_share_1m > 0.01) {
    found.push([isShare(requests.error_share_1m), `${share(requests.error_share_1m)} of the requests of the last minute failed`]);
  }
  return found;
}

function fleetProblems(fleet) {
  const list = (rows) => rows.slice(0, 5).map((row) => row.node).join(", ") + (rows.length > 5 ? ` and ${rows.length - 5} more` : "");
  const found = [];
  const refusing = fleet.nodes.filter((row) => row.state === "refuses");
  if (refusing.length > 0) found.push(["bad", `${refusing.length} of ${fleet.nodes_total} nodes of the fleet refuse its configuration: ${list(refusing)}\n${refusing[0].refusal || ""}`]);
  const gone = fleet.nodes.filter((row) => row.state === "gone");
  if (gone.length > 0) found.push(["warn", `${gone.length} of ${fleet.nodes_total} nodes of the fleet are gone: ${list(gone)}`]);
  return found;
}

function drawProblems(snapshot) {
  const region = find("alerts");
  const found = problems(snapshot);
  region.hidden = found.length === 0;
  while (region.children.length > found.length) region.lastChild.remove();
  found.forEach(([mark, message], index) => {
    const node = region.children[index] || region.appendChild(make("p"));
    node.className = mark;
    setText(node, message);
  });
}

// Snapshots as they arrive.

let snapshot = null;
let isPaused = false;

function draw() {
  if (snapshot === null || document.hidden) return;
  drawFacts(snapshot);
  drawProblems(snapshot);
  drawActions(snapshot);
  CHARTS.forEach(drawChart);
  TABLES.forEach((table) => drawTable(table, snapshot));
  const { requests, server } = snapshot;
  document.title = `${rate(requests.rate_10s)} req/s \u2013 sluice ${server.version}`;
}

function receive(next) {
  if (next.latest && next.latest.length > 0) {
    const last = points[points.length - 1];
    if (!last || next.latest[0] > last[0]) points.push(next.latest);
    while (points.length > HISTORY) points.shift();
  }
  if (isPaused) return;
  snapshot = next;
  draw();
}

function setLink(state, words) {
  const node = find("link");
  node.className = state;
  setText(node, isPaused ? "paused" : words);
}

async function load(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`${path}: status ${response.status}`);
  return response.json();
}

async function loadHistory() {
  try {
    const history = await load("/status/history");
    columns = history.columns;
    points = history.points;
    draw();
  } catch (error) {
    console.warn("the history cannot be loaded", error);
  }
}

function listen() {
  const events = new EventSource("/status/events");
  events.addEventListener("open", () => {
    setLink("live", "live");
    loadHistory();
  });
  events.addEventListener("snapshot", (event) => receive(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    setLink("lost", "no connection");
    if (events.readyState !== EventSource.CLOSED) return;
    // The stream was refused, for example because too many read it: poll for a while, then try again.
    poll(5);
  });
}

async function poll(times) {
  try {
    if (points.length === 0) await loadHistory();
    receive(await load("/status"));
    setLink("live", "live, every 2 s");
  } catch (error) {
    setLink("lost", "no connection");
  }
  setTimeout(() => (times > 0 ? poll(times - 1) : listen()), 2000);
}

function pause() {
  isPaused = !isPaused;
  const button = find("pause");
  button.setAttribute("aria-pressed", String(isPaused));
  setText(button, isPaused ? "Resume" : "Pause");
  setLink(isPaused ? "" : "live", "live");
}

let isGoing = false;

function press(event) {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "Escape" && isTyping) {
    event.target.value = "";
    event.target.blur();
    draw();
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const [sites] = TABLES;
  const target = isGoing ? TABLES.find((table) => table.key === event.key) : undefined;
  isGoing = !isGoing && event.key === "g";
  if (target) {
    target.section.scrollIntoView();
    target.section.focus({ preventScroll: true });
  } else if (event.key === "/") {
    event.preventDefault();
    sites.field.focus();
  } else if (event.key === "p") {
    pause();
  }
}

CHARTS.forEach(addChart);
TABLES.forEach(addTable);
find("pause").addEventListener("click", pause);
document.addEventListener("keydown", press);
document.addEventListener("visibilitychange", draw);
listen();
