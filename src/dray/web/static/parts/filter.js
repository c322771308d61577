// A box whose words filter rows; they are in the address as ?q=. The key / focuses it.
import { html, useEffect, useRef } from "../html.js";
import { useParam } from "../router.js";

export function FilterBox({ label = "Filter", param = "q", placeholder = "Filter by any word" }) {
  const [text, setText] = useParam(param);
  const input = useRef(null);
  useEffect(() => {
    const focus = (event) => {
      if (event.key !== "/" || event.target.closest("input, textarea, select, [contenteditable]")) return;
      event.preventDefault();
      input.current.focus();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);
  return html`<label class="filter"><span>${label}</span>
    <input ref=${input} type="search" value=${text} placeholder=${placeholder} aria-keyshortcuts="/"
      onInput=${(event) => setText(event.target.value)} /></label>`;
}

// Whether every word of the filter is in the text.
export function matches(filter, text) {
  const low = text.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => low.includes(word));
}

// One of a few values, in the address. The first stands for whatever else an address has there.
export function useChoice(param, options) {
  const [value, setValue] = useParam(param, options[0][0]);
  return [options.some(([name]) => name === value) ? value : options[0][0], setValue];
}

// <${Choice} label="Colour by" param="colour" options=${[["state", "State"]]} />
export function Choice({ label, param, options }) {
  const [value, setValue] = useChoice(param, options);
  return html`<label class="filter"><span>${label}</span>
    <select value=${value} onChange=${(event) => setValue(event.target.value)}>
      ${options.map(([name, title]) => html`<option key=${name} value=${name} selected=${name === value}>${title}</option>`)}
    </select></label>`;
}
