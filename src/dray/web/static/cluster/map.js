// The map of the cluster: a canvas that is moved with the mouse, a finger or the arrow keys, and zoomed with the wheel,
// + and -. Everything it shows is in the list beside it too.
import { html, useEffect, useLayoutEffect, useRef } from "../html.js";
import { onTheme } from "../theme.js";
import { Geometry } from "./geometry.js";
import { LEVEL_SCALES, Painter, levelOf } from "./painter.js";

const STEP = 1.25;
const CLOSEST = 14;
const LARGEST = 9;
const CLICK = 5;

// What is behind the canvas; not a component, so that moving the map renders nothing else.
class MapView {
  constructor(canvas, store, colouring, events) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.events = events;
    this.hover = { node: -1, device: -1 };
    this.chosen = { node: -1, device: -1 };
    this.frames = [];
    this.show(store, colouring);
  }

  show(store, colouring) {
    this.store = store;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.geometry = new Geometry(store, width / Math.max(height, 1));
    this.painter = new Painter(this.geometry, colouring);
    // Who sees everything sees what comes as well.
    if (!this.view || this.view === this.whole) this.fit();
    this.redraw();
  }

  recolour(colouring) {
    this.painter.colouring = colouring;
    this.painter.theme();
    this.redraw();
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = Math.min(width / (this.geometry.w + 8), height / (this.geometry.h + 8), LARGEST);
    this.fitScale = scale;
    this.whole = { scale, x: (this.geometry.w - width / scale) / 2, y: Math.min(-4, (this.geometry.h - height / scale) / 2) };
    this.view = this.whole;
    this.redraw();
  }

  zoom(by, at) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const point = at || { x: width / 2, y: height / 2 };
    const scale = Math.min(Math.max(this.view.scale * by, this.fitScale / 2), CLOSEST);
    this.view = {
      scale,
      x: this.view.x + point.x / this.view.scale - point.x / scale,
      y: this.view.y + point.y / this.view.scale - point.y / scale,
    };
    this.redraw();
  }

  // 0 racks, 1 nodes, 2 devices.
  level(level) {
    if (level === 0) this.fit();
    else this.zoom(Math.max(LEVEL_SCALES[level], this.fitScale) / this.view.scale);
  }

  move(x, y) {
    this.view = { ...this.view, x: this.view.x - x / this.view.scale, y: this.view.y - y / this.view.scale };
    this.redraw();
  }

  // Brings a node into the middle, near enough to read it.
  reveal(node) {
    const box = this.geometry.nodeBox(node);
    const scale = Math.max(this.view.scale, LEVEL_SCALES[1]);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.view = { scale, x: box.x + box.w / 2 - width / scale / 2, y: box.y + box.h / 2 - height / scale / 2 };
    this.redraw();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const point = { x: event.clientX - box.left, y: event.clientY - box.top };
    return { point, found: this.geometry.at(this.view.x + point.x / this.view.scale, this.view.y + point.y / this.view.scale) };
  }

  redraw() {
    this.waiting ||= requestAnimationFrame(() => { this.waiting = 0; this.#draw(); });
  }

  #draw() {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    const complete = this.painter.draw(this.context, this.view, width, height, ratio);
    this.painter.mark(this.context, this.view, ratio, this.hover, false);
    this.painter.mark(this.context, this.view, ratio, this.chosen, true);
    this.#count(complete);
    if (!complete) this.redraw();
    if (levelOf(this.view.scale) !== this.lastLevel) {
      this.lastLevel = levelOf(this.view.scale);
      this.events.onLevel(this.lastLevel);
    }
  }

  // The page's own counter: frames in the last second, and when the first picture was there.
  #count(complete) {
    const now = performance.now();
    this.frames = [...this.frames.filter((time) => time > now - 1000), now];
    this.canvas.dataset.frames = this.frames.length;
    if (complete) this.canvas.dataset.firstPicture ||= Math.round(now);
  }
}

const middle = (points) => ({
  clientX: points.reduce((sum, each) => sum + each.clientX, 0) / points.length,
  clientY: points.reduce((sum, each) => sum + each.clientY, 0) / points.length,
});
const spread = ([first, second]) => Math.max(1, Math.hypot(first.clientX - second.clientX, first.clientY - second.clientY));

// The mouse or a finger moves the map, two fingers zoom it as well; without a move it is a click.
function listen(map, canvas, onChoose, onHover) {
  const pointers = new Map();
  let travelled = 0;
  const place = ({ clientX, clientY }) => ({ clientX, clientY });
  const down = (event) => {
    travelled = pointers.size ? Infinity : 0;
    pointers.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
  };
  const drag = (event) => {
    const before = [...pointers.values()];
    pointers.set(event.pointerId, place(event));
    const after = [...pointers.values()];
    const [from, to] = [middle(before), middle(after)];
    const [x, y] = [to.clientX - from.clientX, to.clientY - from.clientY];
    travelled += Math.abs(x) + Math.abs(y);
    if (travelled > CLICK) map.move(x, y);
    if (after.length === 2) map.zoom(spread(after) / spread(before), map.at(to).point);
  };
  const moved = (event) => {
    if (pointers.has(event.pointerId)) {
      drag(event);
      return;
    }
    const { point, found } = map.at(event);
    if (found.node !== map.hover.node || found.device !== map.hover.device) {
      map.hover = found;
      map.redraw();
      onHover(found, point);
    }
  };
  const cancel = (event) => pointers.delete(event.pointerId);
  const up = (event) => { if (cancel(event) && travelled <= CLICK) onChoose(map.at(event).found); };
  const leave = () => { map.hover = { node: -1, device: -1 }; map.redraw(); onHover(map.hover, null); };
  const wheel = (event) => {
    event.preventDefault();
    map.zoom(event.deltaY < 0 ? STEP : 1 / STEP, map.at(event).point);
  };
  const keys = {
    ArrowLeft: () => map.move(60, 0), ArrowRight: () => map.move(-60, 0), ArrowUp: () => map.move(0, 60), ArrowDown: () => map.move(0, -60),
    "+": () => map.zoom(STEP), "=": () => map.zoom(STEP), "-": () => map.zoom(1 / STEP), 0: () => map.fit(),
  };
  const key = (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  };
  const all = { pointerdown: down, pointermove: moved, pointerup: up, pointercancel: cancel, pointerleave: leave, wheel, keydown: key };
  Object.entries(all).forEach(([name, handler]) => canvas.addEventListener(name, handler, { passive: false }));
  const resized = new ResizeObserver(() => map.redraw());
  resized.observe(canvas);
  const themed = onTheme(() => { map.painter.colouring.theme(); map.painter.theme(); map.redraw(); });
  return () => {
    Object.entries(all).forEach(([name, handler]) => canvas.removeEventListener(name, handler));
    resized.disconnect();
    themed();
  };
}

// store, colouring and kept (nodes that match the filter, or null) as they are now; `handle` gets the MapView.
export function ClusterMap({ store, colouring, kept, chosen, handle, onChoose, onHover, onLevel }) {
  const canvas = useRef(null);
  const map = useRef(null);
  const called = useRef({});
  called.current = { onChoose, onHover, onLevel };
  useLayoutEffect(() => {
    map.current = new MapView(canvas.current, store, colouring, { onLevel: (level) => called.current.onLevel(level) });
    handle.current = map.current;
    return listen(map.current, canvas.current, (found) => called.current.onChoose(found), (found, point) => called.current.onHover(found, point));
  }, []);
  useEffect(() => { if (map.current.store !== store) map.current.show(store, colouring); else map.current.recolour(colouring); }, [store, colouring]);
  useEffect(() => { map.current.painter.dim(kept); map.current.redraw(); }, [kept, store]);
  useEffect(() => { map.current.chosen = chosen; map.current.redraw(); }, [chosen.node, chosen.device, store]);
  return html`<canvas class="cluster-map" ref=${canvas} tabindex="0" role="application"
    aria-label="Map of the cluster. Arrow keys move it, plus and minus zoom, 0 shows everything. The list has the same content." />`;
}
