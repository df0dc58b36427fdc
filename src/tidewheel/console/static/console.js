// Keeps times right, in the reader's zone, tells whether the page is live, ticks all boxes, asks before what many feel,
// and copies commands. Pages work without it.
"use strict";
const units = [[31536000, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
let told = "";
let ahead = 0;

function duration(seconds) {
  const parts = [];
  for (const [length, unit] of units) {
    const count = Math.floor(seconds / length);
    seconds -= count * length;
    if (count || (unit === "s" && !parts.length)) parts.push(count + " " + unit);
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

function tick() {
  const latest = document.getElementById("now").value;
  if (latest !== told) {
    told = latest;
    ahead = Number(told) - Date.now();
  }
  const now = Date.now() + ahead;
  for (const each of document.querySelectorAll("span.rel")) {
    const left = Number(each.dataset.at) - now;
    const text = left > 0 ? "in " + duration(Math.floor(left / 1000)) : duration(Math.floor(-left / 1000)) + " ago";
    if (each.textContent !== text) each.textContent = text;
  }
}

const live = document.getElementById("live");
function tell(text, state) {
  if (live.dataset.state !== state) {
    live.dataset.state = state;
    live.textContent = text;
  }
}
// Asks whether the page has changed, unless the tab is hidden, and seldom after five minutes without a change.
let seen = live.dataset.mark;
let changedAt = Date.now();
let timer;
async function look() {
  clearTimeout(timer);
  if (document.hidden || !seen) return;
  const answer = await fetch(live.dataset.of, {method: "HEAD"}).catch(() => null);
  const mark = answer && answer.headers.get("Tidewheel-Mark");
  tell(mark ? "live" : "not connected: reload the page", mark ? "on" : "off");
  if (mark && mark !== seen) {
    seen = mark;
    changedAt = Date.now();
    live.dispatchEvent(new Event("changed"));
  }
  const every = Number(live.dataset.every);
  clearTimeout(timer);
  timer = setTimeout(look, 1000 * (Date.now() - changedAt < 300000 ? every : Math.max(every, 30)));
}
document.addEventListener("visibilitychange", look);
look();
document.addEventListener("change", (event) => {
  const name = event.target.dataset?.all;
  if (!name) return;
  for (const box of document.querySelectorAll('input[name="' + name + '"]')) box.checked = event.target.checked;
});

// A swap would close what the person opened, and open what the person closed.
const opened = new Map();
document.addEventListener("click", (event) => {
  const details = event.target.closest?.("summary")?.parentElement;
  if (details) setTimeout(() => opened.set(details.id, details.open));
});
document.addEventListener("htmx:after:swap", () => {
  for (const [id, open] of opened) {
    const details = document.getElementById(id);
    if (details) details.open = open;
  }
});
// Times are UTC as they come.
const utc = document.getElementById("utc");
const zoned = {year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23", timeZoneName: "short"};
function local() {
  for (const each of document.querySelectorAll("time:not(.fixed)")) {
    each.title ||= each.textContent;
    if (utc.checked) {
      each.textContent = each.title;
      continue;
    }
    const parts = {};
    for (const part of new Intl.DateTimeFormat("en-GB", zoned).formatToParts(new Date(each.dateTime))) {
      parts[part.type] = part.value;
    }
    each.textContent = parts.year + "-" + parts.month + "-" + parts.day + " " + parts.hour + ":" + parts.minute + ":" +
      parts.second + " " + parts.timeZoneName;
  }
}
try { utc.checked = localStorage.getItem("utc") === "1"; } catch { /* the browser keeps nothing */ }
utc.parentElement.hidden = false;
utc.addEventListener("change", () => {
  try { localStorage.setItem("utc", utc.checked ? "1" : "0"); } catch { /* for this page only */ }
  local();
});

document.addEventListener("submit", (event) => {
  const ask = event.submitter?.dataset.ask || event.target.dataset.ask;
  if (ask && !confirm(ask)) event.preventDefault();
});

function arrange() {
  local();
  document.getElementById("badge").textContent = document.getElementById("attention").value;
  for (const each of document.querySelectorAll("code.copy")) {
    if (each.nextElementSibling?.className === "copied") continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copied";
    button.textContent = "Copy";
    button.addEventListener("click", () => navigator.clipboard.writeText(each.textContent).then(
      () => { button.textContent = "Copied"; }));
    each.after(button);
  }
}
document.addEventListener("htmx:after:swap", arrange);
arrange();
setInterval(tick, 1000);
