// Where things are drawn, in units of the map: racks in rows, nodes in racks, devices in nodes by NUMA node.
import { SMALL_KINDS } from "./store.js";

const BIG = 12;
const SMALL = 4;
const GAP = 2;
const PAD = 3;
const NAME = 7;
const RACK_NAME = 13;
const ACROSS = 4;
const BETWEEN = 10;
const ROW_WIDTHS = 60;

// One node of a layout: rectangles of its devices, and frames of its NUMA nodes and PCIe roots.
function nodeGeometry(shapes) {
  const rects = new Array(shapes.length);
  const frames = [];
  const roots = [];
  const numas = [...new Set(shapes.map((shape) => shape.numa))].sort((first, second) => first - second);
  let y = NAME;
  let width = 0;
  for (const numa of numas) {
    const own = shapes.map((shape, place) => ({ shape, place })).filter(({ shape }) => shape.numa === numa);
    const big = own.filter(({ shape }) => shape.parent < 0 && !SMALL_KINDS.includes(shape.kind));
    const small = own.filter(({ shape }) => shape.parent < 0 && SMALL_KINDS.includes(shape.kind));
    const top = y;
    big.forEach(({ place, shape }, at) => {
      rects[place] = { x: PAD + (at % ACROSS) * (BIG + GAP), y: y + PAD + Math.floor(at / ACROSS) * (BIG + GAP), w: BIG, h: BIG };
      const last = roots.at(-1);
      if (shape.root && last?.name === shape.root && last.y === rects[place].y) last.to = rects[place].x + BIG;
      else if (shape.root) roots.push({ name: shape.root, x: rects[place].x, to: rects[place].x + BIG, y: rects[place].y });
    });
    y += PAD + Math.ceil(big.length / ACROSS) * (BIG + GAP) + (small.length ? 1.5 : 0.5);
    const line = Math.floor((ACROSS * (BIG + GAP) + GAP) / (SMALL + 1));
    small.forEach(({ place }, at) => {
      rects[place] = { x: PAD + (at % line) * (SMALL + 1), y: y + Math.floor(at / line) * (SMALL + 1), w: SMALL, h: SMALL };
    });
    y += Math.ceil(small.length / line) * (SMALL + 1);
    const right = Math.max(...own.map(({ place }) => (rects[place] ? rects[place].x + rects[place].w : 0)), BIG + PAD);
    width = Math.max(width, right + PAD);
    if (numa >= 0) frames.push({ title: `NUMA ${numa}`, x: 1, y: top + 1, h: y - top });
    y += 1;
  }
  const parts = Map.groupBy(shapes.map((_, place) => place).filter((place) => shapes[place].parent >= 0), (place) => shapes[place].parent);
  return { rects, parts, frames, roots, links: linked(shapes, rects), w: width, h: y + PAD };
}

function linked(shapes, rects) {
  const groups = Map.groupBy(shapes.map((shape, place) => ({ shape, place })).filter(({ shape }) => shape.link), ({ shape }) => shape.link);
  return [...groups].map(([title, own]) => ({ title, points: own.map(({ place }) => ({ x: rects[place].x + rects[place].w / 2, y: rects[place].y })) }));
}

export class Geometry {
  constructor(store, aspect) {
    this.nodes = store.layouts.map((layout) => nodeGeometry(layout.map((shape) => store.shapes[shape])));
    const members = store.racks.map(() => []);
    store.names.forEach((_, node) => members[store.nodeRack[node]].push(node));
    this.place = new Float32Array(2 * store.names.length);
    this.racks = members.map((nodes, rack) => this.#rack(store, nodes, rack, aspect)).filter((rack) => rack.nodes.length);
    this.#flow(aspect);
    for (const rack of this.racks) {
      rack.nodes.forEach((node, at) => {
        this.place[2 * node] = rack.x + PAD + (at % rack.across) * rack.cellW;
        this.place[2 * node + 1] = rack.y + RACK_NAME + Math.floor(at / rack.across) * rack.cellH;
      });
    }
    this.store = store;
  }

  // A rack that has most of the nodes is as wide as the window, others are about as wide as high.
  #rack(store, nodes, number, aspect) {
    const sizes = [...new Set(nodes.map((node) => store.nodeLayout[node]))].map((layout) => this.nodes[layout]);
    const cellW = Math.max(...sizes.map((each) => each.w)) + 3;
    const cellH = Math.max(...sizes.map((each) => each.h)) + 3;
    const shape = Math.max(0.8, (aspect * nodes.length) / store.names.length);
    const across = Math.max(1, Math.round(Math.sqrt((nodes.length * cellH * shape) / cellW)));
    const down = Math.ceil(nodes.length / across);
    return { name: store.racks[number], nodes, across, cellW, cellH, w: across * cellW + PAD, h: down * cellH + RACK_NAME, x: 0, y: 0 };
  }

  // Racks in rows, so wide that the whole can be shown as large as possible in a window of this shape.
  #flow(aspect) {
    const widths = this.racks.map((rack) => rack.w + BETWEEN);
    const [least, most] = [widths.reduce((widest, each) => Math.max(widest, each), 0), widths.reduce((sum, each) => sum + each, 0)];
    let best = { row: least, scale: 0 };
    for (let step = 0; step <= ROW_WIDTHS; step += 1) {
      const row = least + (most - least) * (step / ROW_WIDTHS) ** 2;
      this.#place(row);
      const scale = Math.min(aspect / this.w, 1 / this.h);
      if (scale > best.scale) best = { row, scale };
    }
    this.#place(best.row);
  }

  #place(row) {
    let x = 0;
    let y = 0;
    let high = 0;
    this.w = 0;
    for (const rack of this.racks) {
      if (x && x + rack.w > row) { x = 0; y += high + BETWEEN; high = 0; }
      rack.x = x;
      rack.y = y;
      x += rack.w + BETWEEN;
      high = Math.max(high, rack.h);
      this.w = Math.max(this.w, x);
    }
    this.h = y + high;
  }

  nodeBox(node) {
    const { w, h } = this.nodes[this.store.nodeLayout[node]];
    return { x: this.place[2 * node], y: this.place[2 * node + 1], w, h };
  }

  // The node and device at a point: { node, device }, each -1 if there is none.
  at(x, y) {
    const rack = this.racks.find((each) => x >= each.x && y >= each.y && x < each.x + each.w && y < each.y + each.h);
    if (!rack) return { node: -1, device: -1 };
    const column = Math.floor((x - rack.x - PAD) / rack.cellW);
    const line = Math.floor((y - rack.y - RACK_NAME) / rack.cellH);
    const node = column >= 0 && column < rack.across && line >= 0 ? rack.nodes[line * rack.across + column] ?? -1 : -1;
    if (node < 0) return { node: -1, device: -1 };
    const box = this.nodeBox(node);
    const { rects } = this.nodes[this.store.nodeLayout[node]];
    const inside = (rect) => rect && x >= box.x + rect.x && y >= box.y + rect.y && x < box.x + rect.x + rect.w && y < box.y + rect.y + rect.h;
    const place = rects.findIndex(inside);
    const part = place < 0 ? undefined : this.heldParts(node, place).find(({ rect }) => inside(rect));
    return { node, device: part ? part.device : place < 0 ? -1 : this.store.first[node] + place };
  }

  // The partitions of a device that are held, as slices of it: [{ device, rect }]. Others are possible, not there.
  heldParts(node, place) {
    const { rects, parts } = this.nodes[this.store.nodeLayout[node]];
    const own = parts.get(place);
    if (!own) return [];
    const [first, home] = [this.store.first[node], rects[place]];
    const whole = this.store.shape(first + place).memory || 1;
    let bottom = home.y + home.h;
    return own.filter((each) => this.store.holder[first + each] >= 0).map((each) => {
      const high = Math.max(1, Math.min(home.h, (home.h * this.store.shape(first + each).memory) / whole));
      bottom -= high;
      return { device: first + each, rect: { x: home.x, y: Math.max(home.y, bottom), w: home.w, h: high - 0.3 } };
    });
  }

  // Where a device is in its node; null for a partition that nobody holds.
  rect(node, device) {
    const { rects } = this.nodes[this.store.nodeLayout[node]];
    const place = device - this.store.first[node];
    const parent = this.store.shape(device).parent;
    return parent < 0 ? rects[place] : this.heldParts(node, parent).find((part) => part.device === device)?.rect;
  }
}
