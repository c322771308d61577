// The panel beside a list: takes the focus when it opens, and Escape closes it and gives the focus back.
import { html, useEffect, useRef } from "../html.js";

export function Details({ title, onClose, children }) {
  const panel = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    panel.current.focus({ preventScroll: true });
    return () => before?.isConnected && before.focus();
  }, []);
  return html`<aside class="details" aria-label=${title} tabindex="-1" ref=${panel}
      onKeyDown=${(event) => event.key === "Escape" && onClose()}>
    <div class="details-head"><h2>${title}</h2>
      <button type="button" class="quiet" aria-label="Close details" onClick=${onClose}>✕</button></div>
    ${children}
  </aside>`;
}

// Names and values: facts([["Pod", "a/b"], ["Queue", ""]]) leaves out what is empty.
export const facts = (pairs) => html`<dl class="facts">${pairs
  .filter(([, value]) => value !== "" && value !== undefined && value !== null)
  .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
