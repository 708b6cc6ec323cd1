"use strict";
// What a run's pages do beyond links and forms: comments on lines, marks on files that were seen.
(() => {
  // The newest iterations are what one wants to see.
  document.querySelectorAll(".matrix-scroll").forEach((it) => { it.scrollLeft = it.scrollWidth; });

  const review = document.querySelector(".review");
  if (!review) return;
  const kept = (name) => {
    const key = `${name} ${review.dataset.run}`;
    const read = () => { try { return JSON.parse(localStorage.getItem(key)) || {}; } catch { return {}; } };
    return { read, set(id, value) {
      const all = read();
      if (value) all[id] = value; else delete all[id];
      try { localStorage.setItem(key, JSON.stringify(all)); } catch { /* it is a convenience */ }
    } };
  };

  // Files that were seen; one that has changed since counts as new.
  const seen = kept("seen");
  const mark = (path, is) => {
    for (const it of review.querySelectorAll("[data-path]")) if (it.dataset.path === path) it.classList.toggle("seen", is);
  };
  for (const file of review.querySelectorAll("details.diff[data-path]")) {
    const { path, digest } = file.dataset;
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    label.className = "viewed";
    label.append(box, " viewed");
    file.querySelector("summary").after(label);
    box.addEventListener("change", () => { seen.set(path, box.checked && digest); mark(path, box.checked); file.open = !box.checked; });
  }
  for (const it of review.querySelectorAll("[data-digest]")) {
    if (seen.read()[it.dataset.path] !== it.dataset.digest) continue;
    it.classList.add("seen");
    const box = it.querySelector(".viewed input");
    if (box) { box.checked = true; if (!location.hash) it.open = false; }
  }

  const form = document.getElementById("review");
  if (!form) return;
  // A browser leaves the focus alone where an address leads to a part of the page.
  review.querySelector("textarea[autofocus]")?.focus();
  const drafts = kept("drafts");
  const told = document.getElementById("drafts");
  const hint = told.textContent;
  const count = () => {
    const number = Object.keys(drafts.read()).length;
    told.textContent = number ? `${number} comment${number > 1 ? "s" : ""} to send. ${hint}` : hint;
  };
  const field = (place, text) => {
    const box = document.createElement("textarea");
    box.name = `on:${place}`;
    box.setAttribute("form", "review");
    box.setAttribute("aria-label", `Comment on ${place.replace(":-", " line, as it was, ").replace(/:(\d+)$/, " line $1")}`);
    box.value = text || "";
    box.addEventListener("input", () => { drafts.set(place, box.value.trim()); count(); });
    return box;
  };
  const close = (box) => { drafts.set(box.name.slice(3), ""); (box.closest("tr.told") || box).remove(); count(); };
  const open = (link, text) => {
    const place = link.dataset.on;
    const there = [...document.querySelectorAll("textarea[form=review]")].find((it) => it.name === `on:${place}`);
    if (there) { there.focus(); return; }
    const row = link.closest("tr");
    const more = document.createElement("tr");
    more.className = place.includes(":-") ? "told gone" : "told";
    const cell = more.insertCell();
    cell.className = "wide";
    cell.colSpan = 4;
    const box = field(place, text);
    const drop = document.createElement("button");
    drop.type = "button";
    drop.textContent = "Drop";
    drop.addEventListener("click", () => { close(box); link.focus(); });
    cell.append(box, drop);
    row.after(more);
    if (text === undefined) box.focus();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-on]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(link);
  });

  // What was written before, here or on another page of the same changes, goes along.
  const links = new Map([...document.querySelectorAll("a[data-on]")].map((it) => [it.dataset.on, it]));
  for (const [place, text] of Object.entries(drafts.read())) {
    if (links.has(place)) open(links.get(place), text);
    else { const box = field(place, text); box.hidden = true; form.append(box); }
  }
  count();
  form.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.successful || event.target !== form || !form.querySelector(".said.good")) return;
    for (const box of document.querySelectorAll("textarea[form=review], #review textarea[name^='on:']")) {
      drafts.set(box.name.slice(3), "");
      const note = document.createElement("p");
      note.className = "note";
      note.textContent = `${box.value} (sent)`;
      const row = box.closest("tr.told");
      if (row) row.cells[0].replaceChildren(note); else box.remove();
    }
    form.reset();
    count();
  });
})();
