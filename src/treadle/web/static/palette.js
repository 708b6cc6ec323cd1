"use strict";
// Ctrl K: go to any page, run or task, or to a button of this page, by a few letters of its name.
(() => {
  const dialog = document.getElementById("palette"), field = dialog.querySelector("input"), list = dialog.querySelector("ul");
  let tasks = null, turn = 0;
  const json = async (url) => { try { return await (await fetch(url)).json(); } catch { return {}; } };
  const entry = (kind, text, go) => ({ kind, text, go });
  const here = () => [
    ...[...document.querySelectorAll("#nav a")].map((it) => entry("page", it.textContent.trim(), () => location.assign(it.href))),
    // A button is stepped to, not pressed: what it does stands beside it.
    ...[...document.querySelectorAll("main form[method=post] button")].map((it) => {
      const line = it.form.querySelector(".line");
      return entry("action", `${it.textContent.trim()}: ${line ? line.textContent : ""}`, () => {
        for (let fold = it.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
        it.focus();
      });
    }),
  ];
  const known = async (text) => {
    tasks ||= ((await json("/board.json")).tasks || []).map((it) => entry("task", `${it.task_id} ${it.goal}`, () => location.assign(`/tasks/${it.task_id}`)));
    const { runs = [] } = await json(`/runs.json?limit=20&q=${encodeURIComponent(text)}`);
    return [...tasks, ...runs.map((it) => entry("run", `${it.goal} ${it.run_id}`, () => location.assign(`/runs/${it.run_id}`)))];
  };
  const matches = (text) => (it) => text.toLowerCase().split(" ").every((word) => it.text.toLowerCase().includes(word));
  const draw = (entries) => list.replaceChildren(...entries.slice(0, 12).map((it) => {
    const item = document.createElement("li"), button = document.createElement("button"), kind = document.createElement("span");
    kind.className = "tag";
    kind.textContent = it.kind;
    button.type = "button";
    button.append(kind, ` ${it.text.slice(0, 140)}`);
    button.addEventListener("click", () => { dialog.close(); it.go(); });
    item.append(button);
    return item;
  }));
  const search = async () => {
    const mine = ++turn, text = field.value.trim(), near = here().filter(matches(text));
    draw(near);
    const far = (await known(text)).filter(matches(text));
    if (mine === turn) draw([...near.filter((it) => it.kind === "page"), ...far, ...near.filter((it) => it.kind === "action")]);
  };
  field.addEventListener("input", search);
  dialog.addEventListener("keydown", (event) => {
    const all = [...list.querySelectorAll("button")], at = all.indexOf(document.activeElement);
    if (event.key === "Escape") { event.preventDefault(); dialog.close(); } // a search field would only be emptied
    if (event.key === "Enter" && event.target === field && all[0]) { event.preventDefault(); all[0].click(); }
    if (event.key === "ArrowDown") { event.preventDefault(); all[Math.min(at + 1, all.length - 1)]?.focus(); }
    if (event.key === "ArrowUp") { event.preventDefault(); (all[at - 1] || field).focus(); }
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      field.value = "";
      dialog.showModal();
      search();
    }
  });
})();
