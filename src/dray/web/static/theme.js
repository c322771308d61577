// Light or dark: as the system says, until the viewer chooses.
import { html, useState } from "./html.js";

const KEY = "dray-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

function stored() {
  try { return localStorage.getItem(KEY); } catch { return null; }
}

const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
// For what is drawn on a canvas: it has to be drawn anew.
export const onTheme = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };
// The value of a token of style.css: token("--text").
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tell = () => listeners.forEach((listener) => listener());
system.addEventListener("change", tell);
if (stored()) document.documentElement.dataset.theme = stored();

export function ThemeButton() {
  const [dark, setDark] = useState(isDark);
  const toggle = () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem(KEY, next); } catch { /* it lasts until the page is closed */ }
    setDark(next === "dark");
    tell();
  };
  return html`<button type="button" class="quiet" onClick=${toggle} aria-label=${`Switch to ${dark ? "light" : "dark"} theme`}>
    ${dark ? "Light" : "Dark"}</button>`;
}
