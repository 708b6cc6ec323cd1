"use strict";
// Bring a part of the page up to date in place: what stays keeps its element, and with it focus, scrolling, selection,
// folds, typed text and the place under the pointer.
(() => {
  const CONTROL = "a, button, input, select, textarea, summary, label";
  const FIELD = "form[method=post] textarea, form[method=post] input:not([type=hidden])";
  const ROW = "[data-href], [data-row], [id]";
  const FOLDS = { DETAILS: ["open"], DIALOG: ["open"], TIME: ["title"], BUTTON: ["hidden"] };

  // A control is known by what it does, a row by what it shows, anything else by the first such thing in it.
  const own = (node) => {
    if (node.id || node.dataset.href) return node.id || node.dataset.href;
    if (node.tagName !== "FORM") return node.getAttribute("href") || node.getAttribute("name");
    const hidden = [...node.querySelectorAll("input[type=hidden]")];
    return [node.getAttribute("action"), ...hidden.map((it) => `${it.name}=${it.value}`)].join("\n");
  };
  const inner = (node) => {
    const first = node.querySelector("[id], [href], [name], [data-href], form");
    return first && own(first);
  };
  const named = (kind, name) => (node) => {
    const found = node.nodeType === Node.ELEMENT_NODE ? name(node) : null;
    return found ? `${kind} ${node.nodeName} ${found}` : null;
  };
  const WAYS = [named("is", own), named("has", inner)];

  // Pair each new child with an old one: by what it is, by what is in it, then by its kind and order.
  const pair = (olds, news) => {
    const found = new Map(), left = new Set(olds);
    const take = (fresh, old) => { found.set(fresh, old); left.delete(old); };
    for (const way of WAYS) {
      const known = new Map();
      for (const old of left) if (way(old) && !known.has(way(old))) known.set(way(old), old);
      for (const fresh of news) {
        const old = !found.has(fresh) && known.get(way(fresh));
        if (old && left.has(old)) take(fresh, old);
      }
    }
    const strange = (node) => WAYS[0](node) === null;
    for (const fresh of news) {
      if (found.has(fresh) || !strange(fresh)) continue;
      for (const old of left) {
        if (old.nodeName === fresh.nodeName && strange(old)) { take(fresh, old); break; }
      }
    }
    return [found, left];
  };

  const attributes = (old, fresh) => {
    const ours = FOLDS[old.tagName] || [];
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !ours.includes(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && !ours.includes(name)) old.setAttribute(name, value);
    }
  };

  // Words that were typed and not sent outlive what they were meant for.
  const isTyped = (node) => node.nodeType === Node.ELEMENT_NODE && [...node.querySelectorAll(FIELD)].some(
    (it) => !it.closest(".sent") && it.value !== it.defaultValue && it.type !== "checkbox");
  const keep = (node) => {
    if (node.classList.contains("gone")) return;
    node.classList.add("gone");
    const said = document.createElement("p");
    said.className = "note";
    said.textContent = "This can no longer be sent; what you typed stays here until you leave the page.";
    node.prepend(said);
    node.querySelectorAll("button").forEach((it) => { it.disabled = true; });
  };

  const put = (parent, node, before) => {
    if (node.isConnected && parent.moveBefore) parent.moveBefore(node, before);
    else parent.insertBefore(node, before);
  };
  // Room between elements is no thing of its own, or removing one would pair, and so move, all that follow it.
  const isRoom = (node) => node.nodeType === Node.TEXT_NODE && !node.nodeValue.trim() && !node.parentElement?.closest("pre");
  const remove = (node) => {
    if (node.nextSibling && isRoom(node.nextSibling)) node.nextSibling.remove();
    node.remove();
  };
  // A form whose answer has not come yet stays, or the answer would have no place.
  const isSent = (node) => node.matches?.(".sent") || node.querySelector?.(".sent");
  const children = (old, fresh) => {
    const news = [...fresh.childNodes], rooms = new Set(news.filter(isRoom));
    const [found, left] = pair([...old.childNodes].filter((it) => !isRoom(it)), news.filter((it) => !rooms.has(it)));
    const stays = old.parentElement?.matches("[data-append]"); // lines of a log, which only grows
    for (const node of left) { if (isTyped(node)) keep(node); else if (!stays && !isSent(node)) remove(node); }
    let at = old.firstChild;
    for (const node of news) {
      while (at && (left.has(at) || (isRoom(at) && !rooms.has(node)))) at = at.nextSibling;
      const same = rooms.has(node) ? at && isRoom(at) && at : found.get(node);
      if (same && !rooms.has(node)) patch(same, node);
      if (same && same === at) at = at.nextSibling;
      else put(old, same || node, at);
    }
  };
  // A log without lines of its own grows below its last words.
  const grow = (old, fresh) => {
    const end = old.textContent.slice(-500), at = fresh.textContent.lastIndexOf(end);
    if (!end || at < 0) return false;
    const texts = document.createTreeWalker(fresh, NodeFilter.SHOW_TEXT), more = document.createRange();
    let left = at + end.length;
    while (texts.nextNode() && left > texts.currentNode.length) left -= texts.currentNode.length;
    more.setStart(texts.currentNode, left);
    more.setEndAfter(fresh.lastChild);
    old.append(more.extractContents());
    return true;
  };
  const patch = (old, fresh) => {
    if (old.isEqualNode(fresh) || old.matches?.(".sent")) return;
    if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = fresh.nodeValue; return; }
    attributes(old, fresh);
    if (!old.matches("pre[data-follow]") || !grow(old, fresh)) children(old, fresh);
  };

  // What somebody points at or has stepped to stays where it is on the screen, else the first row that is read.
  let point = null, shield = 0;
  const pointed = () => point && document.elementFromPoint(...point)?.closest(CONTROL);
  const isSeen = (it) => { const { top, bottom } = it.getBoundingClientRect(); return bottom > 0 && top < innerHeight; };
  const anchor = (target) => {
    const here = document.activeElement;
    const chosen = [pointed(), target.contains(here) ? here : null].find((it) => it && isSeen(it));
    if (chosen || scrollY === 0) return chosen;
    return [...target.querySelectorAll(ROW)].find((it) => it.getBoundingClientRect().top >= 0);
  };
  const hold = (it, top) => {
    for (let part = it.parentElement; part; part = part.parentElement) {
      const by = it.getBoundingClientRect().top - top;
      if (Math.abs(by) < 1) return;
      if (part.scrollHeight > part.clientHeight) part.scrollTop += by;
    }
  };
  const update = (target, fresh) => {
    const held = document.activeElement, range = [held.selectionStart, held.selectionEnd];
    const rows = [...target.querySelectorAll("[data-row], [data-href]")].filter((it) => !it.contains(held));
    const fixed = anchor(target), top = fixed?.getBoundingClientRect().top, under = pointed();
    patch(target, fresh);
    const again = !held.isConnected && held.id && document.getElementById(held.id);
    if (again) again.focus({ preventScroll: true });
    if (held.isConnected && held !== document.activeElement) {
      held.focus({ preventScroll: true });
      if (range[0] != null && held.setSelectionRange) held.setSelectionRange(...range);
    }
    // Never to another control: who presses Enter next means the one that is gone.
    if (!held.isConnected && !again) (rows.find((it) => it.isConnected && it.tabIndex === -1) || document.getElementById("page")).focus({ preventScroll: true });
    if (fixed?.isConnected) hold(fixed, top);
    const now = pointed();
    if (now && now !== under) shield = performance.now() + 600;
  };

  document.addEventListener("pointermove", (event) => { point = [event.clientX, event.clientY]; shield = 0; });
  document.addEventListener("click", (event) => {
    if (!event.detail || performance.now() > shield) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail, fresh = fragment.firstElementChild || fragment;
    event.detail.shouldSwap = false;
    if (target.isEqualNode(fresh) || (target.dataset.version && target.dataset.version === fresh.dataset.version)) return;
    update(target, fresh);
    htmx.process(target);
    htmx.trigger(target, "htmx:oobAfterSwap", event.detail);
  });
  // What is large and has not changed is not sent again.
  document.addEventListener("htmx:configRequest", (event) => {
    const version = event.target.id === "news" && document.querySelector("[data-version]")?.dataset.version;
    if (version) event.detail.headers["X-Have"] = version;
  });
  // What was sent is no longer being typed.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches?.("form[method=post]")) event.target.classList.add("sent");
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.target.matches?.(".sent")) return;
    event.target.classList.remove("sent");
    if (document.getElementById("news")) setTimeout(() => htmx.trigger("#news", "sse:store"));
    // What was refused can be put right and sent again.
    const isTaken = event.detail.successful && !event.detail.xhr.responseText.includes('class="said bad refused"');
    if (isTaken && event.target.matches?.("form[method=post]")) event.target.reset();
  });
})();
