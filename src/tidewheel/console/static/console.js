// Keeps times relative to now right, tells whether the page is live, and ticks all boxes. Pages work without it.
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
document.addEventListener("htmx:sse:after:connection", () => tell("live", "on"));
document.addEventListener("htmx:sse:error", () => tell("not connected: reload the page", "off"));
document.addEventListener("htmx:sse:close", () => tell("not live", "off"));
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
setInterval(tick, 1000);
