"use strict";
// What htmx does not do: keys, the sign that says whether the page is live, and calm while it is.
(() => {
  const live = document.getElementById("live");
  const help = "Is treadle serve running? If it was started again, open another link: treadle serve --link";
  const say = (state) => {
    live.dataset.state = live.textContent = state;
    live.title = state === "not live" ? help : "";
  };

  // Who wants to be told of what is new on the desk is, also by a tab in the background.
  const nav = document.getElementById("nav"), notify = document.getElementById("notify");
  const isTold = () => "Notification" in window && Notification.permission === "granted" && localStorage.notify === "on";
  const show = () => {
    notify.hidden = !("Notification" in window) || Notification.permission === "denied";
    notify.setAttribute("aria-pressed", isTold());
    notify.textContent = isTold() ? "notifies you" : "notify me";
  };
  notify.addEventListener("click", async () => {
    localStorage.notify = isTold() ? "off" : "on";
    if (localStorage.notify === "on") await Notification.requestPermission();
    show();
  });
  show();
  let waiting = Number(nav.dataset.desk);
  nav.addEventListener("htmx:oobAfterSwap", () => {
    const now = Number(nav.dataset.desk), icon = document.getElementById("icon");
    const href = `/static/treadle${now ? "-waits" : ""}.svg`;
    if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
    if (now > waiting && isTold()) new Notification(`${now} on the desk`, { body: nav.dataset.newest, tag: "desk" });
    waiting = now;
  });

  // A hidden tab gives its stream back, and none has two: a browser keeps few connections to one server.
  let source = null;
  htmx.createEventSource = (url) => {
    if (source) source.close();
    source = new EventSource(url);
    source.addEventListener("open", () => say("live"));
    source.addEventListener("error", () => say("not live"));
    if (document.hidden && !isTold()) { source.close(); say("paused"); }
    return source;
  };
  // As if the body and what listens to its stream were new.
  const again = () => document.querySelectorAll("body, #news").forEach((part) => htmx.trigger(part, "htmx:afterProcessNode"));
  document.addEventListener("visibilitychange", () => {
    if (!source || (document.hidden && isTold())) return;
    if (document.hidden) { source.close(); say("paused"); }
    else if (source.readyState === EventSource.CLOSED) again();
  });

  // A press is never without an answer, not even where the server refuses it or is away.
  const tell = (text) => {
    const said = document.createElement("div");
    said.className = "said bad";
    said.setAttribute("role", "status");
    said.textContent = `✗ ${text}`;
    document.getElementById("said").replaceChildren(said);
  };

  // What is shown may be gone meanwhile: then the page says so.
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    if (event.target.id === "news") { if (xhr.status === 404) location.reload(); }
    else if (xhr.status !== 404 && xhr.status !== 409) tell(xhr.responseText);
  });
  document.addEventListener("htmx:sendError", (event) => { if (event.target.id !== "news") tell(help); });

  // Nothing moves while a button is down, or the click would be lost; it moves once the button is up.
  let pressed = false, missed = false;
  document.addEventListener("pointerdown", (event) => { pressed = event.button === 0 && !event.ctrlKey; });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (pressed && event.detail.requestConfig.elt.id === "news") { missed = true; event.preventDefault(); }
  });
  const release = () => {
    if (missed) setTimeout(() => htmx.trigger("#news", "sse:store"));
    pressed = missed = false;
  };
  document.addEventListener("pointerup", release);
  document.addEventListener("pointercancel", release);

  // Ages go on by themselves; each says its time here, with its zone, and in UTC.
  const local = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const tick = () => document.querySelectorAll("time[datetime]").forEach((it) => {
    const then = new Date(it.dateTime), seconds = Math.max(0, (Date.now() - then) / 1000);
    if (isNaN(then)) return;
    if (!it.title) it.title = `${local.format(then)} · ${then.toISOString().slice(0, 19)}Z`;
    const said = /^[\d.]+ (?:s|min|h|d)( ago)?$/.exec(it.textContent);
    const [length, unit] = UNITS.find(([size]) => seconds >= size) || [1, "s"];
    const text = `${Math.round(seconds / length)} ${unit}${said?.[1] || ""}`;
    if (said && it.textContent !== text) it.textContent = text;
  });
  setInterval(() => { if (!document.hidden) tick(); }, 1000);
  document.addEventListener("htmx:oobAfterSwap", tick);
  tick();

  // A log that is read at its end stays there while it grows.
  const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 30;
  const left = new WeakSet(); // logs in which somebody has scrolled up
  const follow = () => document.querySelectorAll("[data-follow]").forEach((log) => {
    if (!left.has(log)) log.scrollTop = log.scrollHeight;
  });
  const jumpOf = (log) => { const next = log.nextElementSibling; return next?.matches(".jump") ? next : null; };
  document.addEventListener("scroll", (event) => {
    const log = event.target;
    if (!log.matches?.("[data-follow]")) return;
    if (atEnd(log)) left.delete(log); else left.add(log);
    if (jumpOf(log)) jumpOf(log).hidden = atEnd(log);
  }, true);
  document.addEventListener("click", (event) => {
    if (!event.target.matches(".jump")) return;
    const log = event.target.previousElementSibling;
    left.delete(log);
    follow();
    log.focus({ preventScroll: true });
  });
  document.addEventListener("htmx:oobAfterSwap", follow);
  follow();

  // A card goes to another lane by hand or by key: its own form says where it may go, and is sent.
  let dragged = null;
  const wayTo = (card, lane) => {
    const form = card?.querySelector("form[action$='/move']");
    return form && [...form.elements.to.options].some((it) => it.value === lane) ? form : null;
  };
  const move = (card, lane) => {
    const form = wayTo(card, lane);
    if (form) { form.elements.to.value = lane; form.requestSubmit(); }
  };
  const laneOf = (event) => event.target.closest?.("[data-lane]");
  document.addEventListener("dragstart", (event) => { dragged = event.target.closest?.(".card[draggable]"); });
  document.addEventListener("dragover", (event) => {
    const lane = laneOf(event);
    document.querySelectorAll(".lane.over").forEach((it) => it.classList.remove("over"));
    if (lane && wayTo(dragged, lane.dataset.lane)) { lane.classList.add("over"); event.preventDefault(); }
  });
  document.addEventListener("drop", (event) => {
    const lane = laneOf(event);
    if (lane) { event.preventDefault(); lane.classList.remove("over"); move(dragged, lane.dataset.lane); }
  });
  const shift = (card, by) => {
    const lanes = [...document.querySelectorAll("[data-lane]")].map((it) => it.dataset.lane);
    const at = lanes.indexOf(card.closest("[data-lane]").dataset.lane);
    const onward = by > 0 ? lanes.slice(at + 1) : lanes.slice(0, at).reverse();
    const lane = onward.find((it) => wayTo(card, it));
    if (lane) move(card, lane);
    else tell("this card cannot go there");
  };

  const rows = () => [...document.querySelectorAll("[data-href], [data-row]")];
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    (next.tabIndex === 0 ? next : next.querySelector("a") || next).focus();
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const filter = document.querySelector("[data-filter]");
    const card = document.activeElement.closest("[data-lane] .card");
    if (event.key === "j") step(1);
    else if (card && event.key === ">") shift(card, 1);
    else if (card && event.key === "<") shift(card, -1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/" && filter) { event.preventDefault(); filter.focus(); }
    else if (card && event.key === "Enter" && event.target === card) card.querySelector("a").click();
    else if (event.key === "?") document.getElementById("keys").showModal();
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest("[data-href]");
    if (row && !event.target.closest("a, button, input, label, textarea, select, summary") && !String(getSelection())) {
      location.assign(row.dataset.href);
    }
  });
})();
