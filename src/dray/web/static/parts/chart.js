// Lines over a time axis in SVG. Several charts share the axis and a cursor; the legend says what is under the cursor.
import { html, useEffect, useRef, useState } from "../html.js";

const LEFT = 44;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 20;

export function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.floor(entry.contentRect.width))));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

// The horizontal place of a time in a drawing of this width.
export const placeOf = (time, { from, to }, width) => LEFT + ((width - LEFT - RIGHT) * (time - from)) / Math.max(1, to - from);
const timeAt = (place, { from, to }, width) => from + ((place - LEFT) * (to - from)) / (width - LEFT - RIGHT);
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

export function ticks({ from, to }) {
  const wide = to - from;
  const step = [60, 300, 600, 900, 1800, 3600, 7200, 14400].find((each) => wide / each <= 8) || 14400;
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, place) => first + place * step);
}

// A round number that is not below the value.
function above(value) {
  if (value <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((factor) => factor * power).find((each) => each >= value);
}

// Lines are broken where samples are missing.
function path(points, step, x, y) {
  let before = -Infinity;
  return points.map(([time, value]) => {
    const command = time - before > 3 * step ? "M" : "L";
    before = time;
    // A sample that is alone is a dot.
    return `${command}${x(time).toFixed(1)} ${y(value).toFixed(1)}${command === "M" ? "h.1" : ""}`;
  }).join("");
}

// The sample next to a time; none where samples are missing.
function nearest(points, time, step) {
  let best = null;
  for (const point of points) if (!best || Math.abs(point[0] - time) < Math.abs(best[0] - time)) best = point;
  return best && Math.abs(best[0] - time) <= 2 * step ? best : null;
}

// lines: [{ name, colour, points: [[time, value]] }]; `show(value)` makes the text of a value.
export function TimeChart({ title, hint, lines, span, step, most, show, cursor, onCursor, height = 130 }) {
  const [element, width] = useWidth();
  const top = most || above(Math.max(0, ...lines.flatMap((line) => line.points.map((point) => point[1]))));
  const x = (time) => placeOf(time, span, width);
  const y = (value) => height - BOTTOM - ((height - TOP - BOTTOM) * Math.min(value, top)) / top;
  const value = (line) => {
    const found = cursor ? nearest(line.points, cursor, step) : line.points.at(-1);
    return found ? show(found[1]) : "–";
  };
  const label = `${title}: ${lines.map((line) => `${line.name} ${value(line)}`).join(", ")}`;
  return html`<section class="chart" ref=${element}><h2>${title}</h2><p class="soft">${hint}</p>
    <ul class="legend" aria-label=${`Legend of ${title}`}>${lines.map((line) => html`<li key=${line.name}><svg width="16" height="10" aria-hidden="true"><line x1="0"
      y1="5" x2="16" y2="5" stroke=${line.colour} stroke-width="3" stroke-dasharray=${line.dash} /></svg>${line.name} <b>${value(line)}</b></li>`)}${!lines.length && html`<li>No value yet</li>`}</ul>
    <svg role="img" aria-label=${label} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}
        onPointerMove=${(event) => onCursor(Math.round(timeAt(event.offsetX, span, width)))} onPointerLeave=${() => onCursor(0)}>
      ${[0, 0.5, 1].map((part) => html`<g key=${part}><line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(part * top)} y2=${y(part * top)} />
        <text class="axis" x=${LEFT - 6} y=${y(part * top) + 4} text-anchor="end">${show(part * top)}</text></g>`)}
      ${ticks(span).map((time) => html`<text key=${time} class="axis" x=${x(time)} y=${height - 4} text-anchor="middle">${clock(time)}</text>`)}
      ${lines.map((line) => html`<path key=${line.name} class="line" d=${path(line.points, step, x, y)} stroke=${line.colour} stroke-dasharray=${line.dash} />`)}
      ${cursor > 0 && html`<line class="cursor" x1=${x(cursor)} x2=${x(cursor)} y1=${TOP} y2=${height - BOTTOM} />`}
    </svg></section>`;
}
