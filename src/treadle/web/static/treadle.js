"use strict";
// What htmx does not do: keys, the sign that says whether the page is live, and calm while it is.
(() => {
  const live = document.getElementById("live");
  const help = "Is treadle serve running? If it was started again, open another link: treadle serve --link";
  const say = (state) => {
    live.dataset.state = live.textContent = state;
    live.title = state === "not live" ? help : "";
  };

  // A hidden tab gives its stream back, and none has two: a browser keeps few connections to one server.
  let source = null;
  htmx.createEventSource = (url) => {
    if (source) source.close();
    source = new EventSource(url);
    source.addEventListener("open", () => say("live"));
    source.addEventListener("error", () => say("not live"));
    if (document.hidden) { source.close(); say("paused"); }
    return source;
  };
  // As if the body and what listens to its stream were new.
  const again = () => document.querySelectorAll("body, #news").forEach((part) => htmx.trigger(part, "htmx:afterProcessNode"));
  document.addEventListener("visibilitychange", () => {
    if (!source) return;
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

  // What looks as before is left alone, so that focus, selection and scrolling survive.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    const fresh = fragment.firstElementChild || fragment;
    for (const old of target.querySelectorAll("details[id][open]")) {
      const same = fresh.querySelector(`#${CSS.escape(old.id)}`);
      if (same) same.open = true;
    }
    if (fresh.isEqualNode(target)) { event.detail.shouldSwap = false; return; }
    for (const old of target.querySelectorAll("form[method=post] [name]:not([type=hidden])")) {
      const same = twin(fresh, old);
      if (same) same.value = old.value;
    }
    const old = document.activeElement;
    if (target.contains(old)) held = [old, old.selectionStart, old.selectionEnd];
  });
  // Neither is where somebody types or has stepped to.
  let held = null;
  const sign = (it) => [it.name, it.getAttribute("href"), it.closest("form")?.getAttribute("action"), it.closest("details")?.id].join("\n");
  const twin = (part, old) => [...part.querySelectorAll(old.tagName)].find((it) => sign(it) === sign(old));
  document.addEventListener("htmx:oobAfterSwap", () => {
    const same = held && twin(document, held[0]);
    if (same) { same.focus({ preventScroll: true }); if (held[1] != null && same.setSelectionRange) same.setSelectionRange(held[1], held[2]); }
    held = null;
  });

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

  // A log that is read at its end stays there while it grows.
  const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 30;
  let following = true;
  const follow = () => document.querySelectorAll("[data-follow]").forEach((log) => {
    if (following) log.scrollTop = log.scrollHeight;
  });
  document.addEventListener("scroll", (event) => {
    if (event.target.matches && event.target.matches("[data-follow]")) following = atEnd(event.target);
  }, true);
  document.addEventListener("htmx:oobAfterSwap", follow);
  follow();

  const rows = () => [...document.querySelectorAll("[data-href], [data-row]")];
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    (next.querySelector("a") || next).focus();
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const filter = document.querySelector("[data-filter]");
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/" && filter) { event.preventDefault(); filter.focus(); }
    else if (event.key === "?") document.getElementById("keys").showModal();
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest("[data-href]");
    if (row && !event.target.closest("a, button, input, label, textarea, select, summary") && !String(getSelection())) {
      location.assign(row.dataset.href);
    }
  });
})();
